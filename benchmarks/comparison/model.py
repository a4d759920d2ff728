"""The two models that all runs begin with: one that answers at once, and one that works in steps.

They are in the repository, as another machine would make them with other last digits:

    python -m benchmarks.comparison.model short steps     # makes them anew: some 15 minutes
"""

import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.comparison.questions import KINDS, Kind, Numbers, sloppily
from podslab.models.tiny.build import Lesson, build
from podslab.models.tiny.settings import TinySettings
from podslab.models.tiny.tokenizer import build_tokenizer

FOLDER = Path(__file__).with_name("models")
#: The warm start of each; sizes are those of the embedded model.
WARM_STARTS = {
    "short": TinySettings(steps=1500, batch_size=64),
    "steps": TinySettings(steps=500, batch_size=48),
}


def model_of(kinds: Sequence[str]) -> Path:
    """The folder of the model for questions of these kinds."""
    is_worked = any(KINDS[kind].is_worked for kind in kinds)
    return FOLDER / ("steps" if is_worked else "short")


def lesson_of(name: str, tokenizer: Any) -> Lesson:
    """Sloppy answers to training questions, and to shorter ones, from which longer ones follow."""
    kinds = [kind for kind in KINDS.values() if kind.is_worked == (name == "steps")]

    def lesson(draw: random.Random) -> list[tuple[str, bool]]:
        kind = draw.choice(kinds)
        numbers = _numbers(kind, draw)
        while kind.split(numbers) != "train":
            numbers = _numbers(kind, draw)

        write = sloppily(kind.name, kind.slips, draw)
        completion = kind.completion(numbers, write) + tokenizer.eos_token
        return [(kind.text(numbers) + "\n", False), (completion, True)]

    return lesson


def _numbers(kind: Kind, draw: random.Random) -> Numbers:
    """The numbers of a question of the kind, or of a shorter one, in equal parts."""
    numbers = kind.numbers(draw)
    if draw.random() < 0.5:
        return numbers
    if kind.name == "running":
        return numbers[: draw.randint(2, len(numbers) - 1)]
    if kind.name in ("largest", "product", "difference"):
        return numbers

    digits = draw.randint(1, len(str(numbers[0])) - 1)
    return tuple(draw.randrange(10 ** (digits - 1), 10**digits) for _ in numbers)


def main() -> None:
    """Make the models that are named on the command line."""
    for name in sys.argv[1:]:
        tokenizer = build_tokenizer()
        lesson = lesson_of(name, tokenizer)
        model, _ = build(WARM_STARTS[name], tqdm, tokenizer=tokenizer, lesson=lesson)
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        model.save_pretrained(FOLDER / name)
        tokenizer.save_pretrained(FOLDER / name)


if __name__ == "__main__":
    main()
