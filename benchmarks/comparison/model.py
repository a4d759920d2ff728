"""The two models that all runs begin with: one that answers at once, and one that works in steps.

Each is the model of `pods demo`, which knows sums column by column, after some minutes of
supervised training on sloppy answers. They are in the repository, as another machine would make
them with other last digits:

    python -m benchmarks.comparison.model short steps    # makes both anew: some 10 minutes
"""

import itertools
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from benchmarks.comparison.protocol import read_protocol
from benchmarks.comparison.questions import KINDS, Kind, Numbers, Questions, sloppily
from podslab.evaluation.sampling import Sampling, complete
from podslab.models.load import load_model
from podslab.models.tiny import get_model
from podslab.training.lab_trainer import completions_only, keep_memory
from podslab.training.shipped_models import settings_of
from podsrl.rollout_log.files import read_json, write_json

FOLDER = Path(__file__).with_name("models")
_AT_START = FOLDER / "start.json"
#: Of each question, where the start is measured.
_SAMPLES = 4
#: Batches of 64 that each is trained on, and its first rate, which falls to 0.
WARM_STARTS = {"short": (1000, 3e-3), "steps": (120, 2e-3)}
_BATCH = 64


def model_of(kinds: Sequence[str]) -> Path:
    """The folder of the model for questions of these kinds."""
    is_worked = any(KINDS[kind].is_worked for kind in kinds)
    return FOLDER / ("steps" if is_worked else "short")


def lessons(name: str) -> Iterator[dict[str, str]]:
    """Sloppy answers to training questions, and to shorter ones, from which longer ones follow."""
    draw = random.Random(f"lessons {name}")
    kinds = [kind for kind in KINDS.values() if kind.is_worked == (name == "steps")]
    while True:
        kind = draw.choice(kinds)
        numbers = _numbers(kind, draw)
        if kind.split(numbers) == "train":
            write = sloppily(kind.name, kind.slips, draw)
            yield {
                "prompt": f"{kind.text(numbers)}\n",
                "completion": kind.completion(numbers, write),
            }


def _numbers(kind: Kind, draw: random.Random) -> Numbers:
    """The numbers of a question of the kind, or of a shorter one, in equal parts."""
    numbers = kind.numbers(draw)
    if draw.random() < 0.5:
        return numbers
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


def make(name: str) -> None:
    """Train the laboratory's shipped model on lessons, and write it into its folder."""
    keep_memory()
    path = get_model(settings_of("demo"))
    tokenizer = AutoTokenizer.from_pretrained(path)
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)

    batches, rate = WARM_STARTS[name]
    shown = list(itertools.islice(lessons(name), batches * _BATCH))
    with tempfile.TemporaryDirectory() as output, completions_only():
        trainer = SFTTrainer(
            model,
            args=SFTConfig(
                output,
                per_device_train_batch_size=_BATCH,
                num_train_epochs=1,
                learning_rate=rate,
                warmup_steps=20,
                lr_scheduler_type="linear",
                disable_tqdm=True,
                logging_steps=50,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
            ),
            train_dataset=Dataset.from_list(shown),
            processing_class=tokenizer,
        )
        trainer.train()

    shutil.rmtree(FOLDER / name, ignore_errors=True)
    model.save_pretrained(FOLDER / name)
    tokenizer.save_pretrained(FOLDER / name)


def main() -> None:
    """Make the models that are named on the command line, and measure what they get right."""
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        make(name)

    protocol = read_protocol()
    for name, own in protocol.sets.items():
        if model_of(own["kinds"]).name in sys.argv[1:]:
            found = measure(
                own["kinds"], protocol.values["questions"], own["max_completion_length"]
            )
            print(name, found, flush=True)
            write_json(_AT_START, {**at_start(), name: found})


if __name__ == "__main__":
    main()
