"""The two models that all runs begin with: one that answers at once, and one that works in steps.

They are in the repository, as another machine would make them with other last digits:

    python -m benchmarks.comparison.model short steps   # makes both anew: some 15 minutes
    python -m benchmarks.comparison.model               # measures what is right at the start
"""

import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.comparison.protocol import read_protocol
from benchmarks.comparison.questions import KINDS, Kind, Numbers, Questions, sloppily
from podslab.evaluation.sampling import Sampling, complete
from podslab.models.load import load_model
from podslab.models.tiny.build import Lesson, build
from podslab.models.tiny.settings import TinySettings
from podslab.models.tiny.tokenizer import build_tokenizer
from podsrl.rollout_log.files import read_json, write_json

FOLDER = Path(__file__).with_name("models")
_AT_START = FOLDER / "start.json"
#: Of each question, where the start is measured.
_SAMPLES = 4
#: The warm start of each; sizes are those of the embedded model.
WARM_STARTS = {
    "short": TinySettings(steps=1000, batch_size=64),
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


def at_start() -> dict[str, dict[str, float]]:
    """What the models get right before any run, of each set; nothing where it was not measured.

    `sampled` and `greedy` are shares of the tuning questions that are right, `tokens` is the mean
    length of the greedy answers.
    """
    return dict(read_json(_AT_START) or {})


def measure(kinds: Sequence[str], sizes: Mapping[str, int], most_tokens: int) -> dict[str, float]:
    """Measure the model for these kinds on their tuning questions, as in `at_start`."""
    model, tokenizer = load_model(str(model_of(kinds)))
    task = Questions(kinds=kinds, **sizes)
    rows = task.load("tuning")
    prompts = [task.prompt(row) for row in rows]

    greedy = Sampling(temperature=0.0, max_new_tokens=most_tokens)
    likeliest = complete(model, tokenizer, prompts, greedy)
    sampled: list[bool | None] = []
    for seed in range(_SAMPLES):
        texts = complete(model, tokenizer, prompts, Sampling(max_new_tokens=most_tokens, seed=seed))
        sampled += [grade.answer for grade in task.grade_batch(texts, rows)]

    right = [grade.answer for grade in task.grade_batch(likeliest, rows)]
    lengths = [len(ids) for ids in tokenizer(likeliest)["input_ids"]]
    return {
        "sampled": sum(map(bool, sampled)) / len(sampled),
        "greedy": sum(map(bool, right)) / len(right),
        "tokens": sum(lengths) / len(lengths),
    }


def main() -> None:
    """Make the models that are named on the command line, and measure both on all sets."""
    for name in sys.argv[1:]:
        tokenizer = build_tokenizer()
        lesson = lesson_of(name, tokenizer)
        model, _ = build(WARM_STARTS[name], tqdm, tokenizer=tokenizer, lesson=lesson)
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        model.save_pretrained(FOLDER / name)
        tokenizer.save_pretrained(FOLDER / name)

    protocol = read_protocol()
    measured = {}
    for name, own in protocol.sets.items():
        measured[name] = measure(
            own["kinds"], protocol.values["questions"], own["max_completion_length"]
        )
        print(name, measured[name], flush=True)
    write_json(_AT_START, measured)


if __name__ == "__main__":
    main()
