"""The model that all runs begin with.

It is the model of `pods demo`, which knows sums column by column, after some minutes of supervised
training: first on right answers, so that it knows how each kind of question is worked, and then on
sloppy ones. It is in the repository, as another machine would make it with other last digits:

    python -m benchmarks.comparison.model            # makes it anew: some ten minutes
    python -m benchmarks.comparison.model --measure  # measures it alone
"""

import argparse
import itertools
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from benchmarks.comparison.protocol import read_protocol
from benchmarks.comparison.questions import OPERATIONS, Questions, sloppily
from podslab.evaluation.sampling import Sampling, complete
from podslab.models.load import load_model
from podslab.models.tiny import get_model
from podslab.training.lab_trainer import completions_only, keep_memory
from podslab.training.shipped_models import settings_of
from podsrl.rollout_log.files import read_json, write_json

FOLDER = Path(__file__).with_name("weights")
_AT_START = Path(__file__).with_name("start.json")
#: Of each question, where the start is measured.
_SAMPLES = 4


@dataclass(frozen=True)
class WarmStart:
    """A stage of the supervised training.

    Args:
        batches: Of 64 answers each.
        learning_rate: At first; it falls to 0.
        sloppiness: The slips that are shown, as a share of those that an operation has.
    """

    batches: int
    learning_rate: float
    sloppiness: float


WARM_STARTS = (
    WarmStart(batches=600, learning_rate=3e-3, sloppiness=0.0),
    WarmStart(batches=300, learning_rate=1e-3, sloppiness=1.0),
)
_BATCH = 64
#: The digits of the shortest numbers that it is shown.
_LEAST_DIGITS = 2


def lessons(sloppiness: float) -> Iterator[dict[str, str]]:
    """Answers to training questions of all lengths that the sets have, and of shorter ones."""
    draw = random.Random(f"lessons {sloppiness}")
    operations = list(OPERATIONS.values())
    longest = _most_digits()
    while True:
        operation = draw.choice(operations)
        digits = draw.randint(_LEAST_DIGITS, longest[operation.name])
        numbers = operation.numbers(draw, digits)
        if operation.split(numbers) == "train":
            write = sloppily(operation.name, sloppiness * operation.slips, draw)
            yield {
                "prompt": f"{operation.text(numbers)}\n",
                "completion": operation.completion(numbers, write),
            }


def _most_digits() -> dict[str, int]:
    """The digits of the longest numbers that the sets have, for each operation."""
    longest: dict[str, int] = {}
    for own in read_protocol().sets.values():
        for kind, digits in own["kinds"].items():
            longest[kind] = max(*digits, longest.get(kind, 0))
    return longest


def at_start() -> dict[str, dict[str, float]]:
    """What the model gets right before any run, of each set; nothing where it was not measured.

    `sampled` and `greedy` are shares of the tuning questions that are right, `tokens` is the mean
    length of the greedy answers.
    """
    return dict(read_json(_AT_START) or {})


def measure(own: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, float]:
    """Measure the model on the tuning questions of a set, as in `at_start`.

    Args:
        own: What the protocol says of the set.
        sizes: Of the splits.
    """
    model, tokenizer = load_model(str(FOLDER))
    task = Questions(kinds=own["kinds"], **sizes)
    rows = task.load("tuning")
    prompts = [task.prompt(row) for row in rows]
    most_tokens = own["max_completion_length"]

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


def make() -> None:
    """Train the laboratory's shipped model on lessons, and write it into its folder."""
    keep_memory()
    path = get_model(settings_of("demo"))
    tokenizer = AutoTokenizer.from_pretrained(path)
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    for stage in WARM_STARTS:
        _train(model, tokenizer, stage)

    shutil.rmtree(FOLDER, ignore_errors=True)
    model.save_pretrained(FOLDER)
    tokenizer.save_pretrained(FOLDER)


def _train(model: Any, tokenizer: Any, stage: WarmStart) -> None:
    shown = list(itertools.islice(lessons(stage.sloppiness), stage.batches * _BATCH))
    with tempfile.TemporaryDirectory() as output, completions_only():
        trainer = SFTTrainer(
            model,
            args=SFTConfig(
                output,
                per_device_train_batch_size=_BATCH,
                num_train_epochs=1,
                learning_rate=stage.learning_rate,
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


def main() -> None:
    """Make the model, and measure what it gets right in each set."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison.model")
    parser.add_argument("--measure", action="store_true", help="measure the model that is there")
    args = parser.parse_args()

    torch.set_num_threads(1)
    if not args.measure:
        make()

    protocol = read_protocol()
    for name, own in protocol.sets.items():
        found = measure(own, protocol.values["questions"])
        print(name, found, flush=True)
        write_json(_AT_START, {**at_start(), name: found})


if __name__ == "__main__":
    main()
