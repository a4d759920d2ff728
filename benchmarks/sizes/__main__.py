"""Measure, or make the page from what was measured.

python -m benchmarks.sizes --minutes 12 RAW.jsonl     # on a GPU: measures what is not in RAW yet
python -m benchmarks.sizes --small RAW.jsonl          # the same with tiny shapes, on a CPU
python -m benchmarks.sizes --page FOLDER RAW.jsonl    # writes sizes.md and its figure
"""

import argparse
import json
import platform
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.sizes.measure import measure
from benchmarks.sizes.page import write_page
from benchmarks.sizes.plan import Case, plan, small_plan
from benchmarks.sizes.shapes import PROMPT_TOKENS


def main(arguments: list[str] | None = None) -> int:
    """Measure what the raw file lacks, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("raw", type=Path, help="the raw file, a line for each case")
    parser.add_argument("--minutes", type=float, default=12, help="begin no case after that (12)")
    parser.add_argument("--small", action="store_true", help="tiny shapes, on a CPU")
    parser.add_argument("--page", type=Path, help="write the page into this folder")
    parser.add_argument("--commit", default="", help="of the code, to be noted")
    args = parser.parse_args(arguments)

    if args.page:
        print(write_page(args.raw, args.page))
        return 0
    cases = small_plan() if args.small else plan()
    run(cases, args.raw, args.minutes, 8 if args.small else PROMPT_TOKENS, args.commit)
    return 0


def run(
    cases: Iterable[Case], raw: Path, minutes: float, prompt_tokens: int, commit: str = ""
) -> None:
    """Measure the cases that the file lacks, one after the other, and append each at once."""
    done = (
        [json.loads(line)["case"] for line in raw.read_text().splitlines()] if raw.exists() else []
    )
    ends = time.monotonic() + 60 * minutes
    where = _where(commit)

    for case in cases:
        if case.as_json() in done:
            continue
        if time.monotonic() > ends:
            print("time is over; the same command goes on")
            return
        began = time.monotonic()
        found = measure(case, prompt_tokens)
        line = {"case": case.as_json(), **found, "where": where}
        with raw.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(
            f"{time.monotonic() - began:5.0f} s  {case.shape} {case.arm.name}: {found}", flush=True
        )


def _where(commit: str) -> dict[str, Any]:
    """The hardware and the versions that seconds depend on."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    versions = {name: version(name) for name in ("torch", "transformers", "trl", "peft")}
    return {"device": device or "CPU", "commit": commit, **versions}


if __name__ == "__main__":
    raise SystemExit(main())
