"""The model that begins with the questions of `long_prompts`: warm-started on sloppy answers.

python -m benchmarks.studies.long_prompts_start runs/long-prompts-start     # some minutes
"""

import random
import sys
from pathlib import Path

from benchmarks.studies.long_prompts import answer_to, draw_pair, draw_prompt
from benchmarks.studies.questions import sloppily
from podslab.models.tiny.build import build
from podslab.models.tiny.settings import TinySettings
from podslab.models.tiny.tokenizer import EOS

#: The worked examples of a prompt, at most.
_EXAMPLES = 16
#: The most often that the model sees a fact written wrongly; see `sloppily`.
_SLIPS = 0.9


class Lessons:
    """Prompts with sloppy answers: short ones first, since these are learned in less time.

    Args:
        settings: Of the warm start.
    """

    def __init__(self, settings: TinySettings) -> None:
        self.batch_size = settings.batch_size
        self.first_long = settings.steps * 3 // 4
        self.given = 0

    def __call__(self, draw: random.Random) -> list[tuple[str, bool]]:
        """A prompt, and the answer that is learned."""
        step = self.given // self.batch_size
        self.given += 1
        most = _EXAMPLES if step >= self.first_long else 1
        pair = draw_pair(draw, "train")
        prompt = draw_prompt(pair, draw.randint(0, most), draw) + "\n"
        answer = answer_to(pair, sloppily("columns", _SLIPS, draw))
        return [(prompt, False), (f"<answer>{answer}</answer>{EOS}", True)]


def save_start(folder: Path) -> None:
    """Build the model at the start, and save it with its tokenizer."""
    settings = TinySettings(steps=480, batch_size=64)
    for part in build(settings, lesson=Lessons(settings)):
        part.save_pretrained(folder)


if __name__ == "__main__":
    save_start(Path(sys.argv[1]))
