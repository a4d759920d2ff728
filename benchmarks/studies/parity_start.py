"""The model that begins with the questions of `parity`: warm-started on sloppy workings.

python -m benchmarks.studies.parity_start runs/parity-start     # some minutes
"""

import random
import sys
from pathlib import Path

from benchmarks.studies.parity import HIGHEST, LOWEST, completion
from benchmarks.studies.questions import sloppily
from podslab.models.tiny.build import build
from podslab.models.tiny.settings import TinySettings
from podslab.models.tiny.tokenizer import EOS
from podslab.tasks.made_up import draw_pair

#: The most often that the model sees a fact written wrongly; see `sloppily`.
_SLIPS = 0.7


def lesson(draw: random.Random) -> list[tuple[str, bool]]:
    """A question, and the sloppy working that is learned; its answer follows from the working."""
    a, b = draw_pair(draw, LOWEST, HIGHEST, "train")
    sloppy, _ = completion((a, b), sloppily("parity", _SLIPS, draw))
    return [(f"{a}+{b}\n", False), (sloppy + EOS, True)]


def save_start(folder: Path) -> None:
    """Build the model at the start, and save it with its tokenizer."""
    for part in build(TinySettings(steps=400, batch_size=64), lesson=lesson):
        part.save_pretrained(folder)


if __name__ == "__main__":
    save_start(Path(sys.argv[1]))
