"""The model that is compared with: made from nothing, until it is right some of the time."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from podslab.evaluation.sampling import Sampling, sample_and_grade
from podslab.models.tiny import TinySettings
from podslab.models.tiny.build import build
from podslab.tasks.arithmetic import Arithmetic

_TRIAL_STEPS, _UNTIMED = 10, 3
#: A comparison starts from at least so much, averaged over its difficulties.
LEAST_RIGHT = 0.1


def warm_start(settings: TinySettings, device: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Build the model and save it, in about this many seconds; returns what to report.

    A few steps on a first model tell how many there is time for, so that the learning rate falls to
    0 in time. A model that has learned next to nothing is built once more, at a smaller rate.
    """
    began = time.perf_counter()
    each = _seconds_per_step(settings, device)
    left = seconds - (time.perf_counter() - began)
    settings = replace(settings, steps=max(20, min(settings.steps, int(left / each))))
    for attempt in range(2):
        stop = time.perf_counter() + 1.3 * seconds
        model, tokenizer = build(settings, _until(stop), device)
        rates = pass_rates(model, tokenizer, settings)
        if attempt or max(rates.values()) >= LEAST_RIGHT or device == "cpu":
            break
        settings = replace(settings, learning_rate=0.4 * settings.learning_rate)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {
        "seconds": time.perf_counter() - began,
        "seconds_per_step": each,
        "attempts": attempt + 1,
        "parameters": sum(p.numel() for p in model.parameters()),
        "settings": asdict(settings),
        "pass_rates": rates,
    }


def _seconds_per_step(settings: TinySettings, device: str) -> float:
    stamps = []

    def watch(steps: Iterable[int]) -> Iterator[int]:
        for step in steps:
            yield step
            _wait(device)
            stamps.append(time.perf_counter())

    build(replace(settings, steps=_TRIAL_STEPS), watch, device)
    return (stamps[-1] - stamps[_UNTIMED - 1]) / (_TRIAL_STEPS - _UNTIMED)


def _until(end: float) -> Callable[[Iterable[int]], Iterator[int]]:
    def watch(steps: Iterable[int]) -> Iterator[int]:
        for step in steps:
            if time.perf_counter() > end:
                return
            yield step

    return watch


def pass_rates(
    model: Any, tokenizer: Any, settings: TinySettings, problems: int = 32, repeats: int = 8
) -> dict[int, float]:
    """Share of sampled answers that are right, by the number of columns."""
    low, high = settings.min_columns, settings.max_columns
    task = Arithmetic(low, high, test_size=problems * (high - low + 1), seed=1)
    rows = task.load("test")
    sampling = Sampling(max_new_tokens=longest(high), batch_size=512)
    right: defaultdict[int, list[bool]] = defaultdict(list)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
        graded = sample_and_grade(model, tokenizer, task, rows, repeats, sampling)
    for row, grades in zip(rows, graded, strict=True):
        right[row["columns"]] += [bool(grade.answer) for grade in grades]
    return {columns: sum(found) / len(found) for columns, found in sorted(right.items())}


def choose_columns(rates: dict[int, float]) -> tuple[int, int]:
    """The widest range from the easiest on that is right often enough on average, to learn from.

    >>> choose_columns({4: 0.4, 5: 0.2, 6: 0.0, 7: 0.0, 8: 0.0, 9: 0.0, 10: 0.0})
    (4, 9)
    """
    columns = sorted(rates)
    for count in range(len(columns), 1, -1):
        if sum(rates[c] for c in columns[:count]) / count >= LEAST_RIGHT:
            return columns[0], columns[count - 1]
    return columns[0], columns[0]


def longest(columns: int) -> int:
    """Tokens that the working and the answer of so many columns may take.

    Lines such as "9+9+1=19" with their ends, four tags, the answer and the end.

    >>> longest(10)
    114
    """
    return 9 * columns + 4 + (columns + 1) + 1 + 8


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
