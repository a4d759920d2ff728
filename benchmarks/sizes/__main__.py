"""Measure, or make the page from what was measured.

python -m benchmarks.sizes --minutes 9 RAW.jsonl      # on a GPU: measures what is not in RAW yet
python -m benchmarks.sizes --small RAW.jsonl          # the same with tiny shapes, on a CPU
python -m benchmarks.sizes --foresee RAW.jsonl        # says what is missing, and how long it takes
python -m benchmarks.sizes --page FOLDER RAW.jsonl    # writes sizes.md and its figure
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.own_process import CallFailedError, import_once, in_own_process
from benchmarks.sizes.plan import (
    Case,
    case_of,
    did_not_fit,
    in_words,
    missing,
    plan,
    small_plan,
)
from benchmarks.sizes.raw_file import Line, append, read_raw
from benchmarks.sizes.shapes import PROMPT_TOKENS
from benchmarks.sizes.where import TO_BEGIN, refuse_others
from podsrl.errors import InvalidInputError

#: Calls a function by its name, for at most so many `seconds`, as `in_own_process` does.
Call = Callable[..., Any]

#: So many failures one after the other have a common cause, and no other case is tried.
_MOST_FAILURES = 3
#: A case hangs if it takes so many times what is foreseen, and at least so many seconds.
_HANGS_AFTER_TIMES = 4.0
_HANGS_AFTER_SECONDS = 120.0
_PACKAGES = ("torch", "transformers", "trl", "peft")
#: What a raw file's lines have in common.
_ALIKE = ("device", "allocator", *_PACKAGES)


def main(arguments: list[str] | None = None) -> int:
    """Measure what the raw file lacks, or write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("raw", type=Path, help="the raw file, a line for each case")
    parser.add_argument("--minutes", type=float, default=9, help="end after these (9)")
    parser.add_argument("--small", action="store_true", help="tiny shapes, on a CPU")
    parser.add_argument("--foresee", action="store_true", help="measure nothing")
    parser.add_argument("--page", type=Path, help="write the page into this folder")
    parser.add_argument("--commit", default="", help="of the code, to be noted")
    args = parser.parse_args(arguments)

    try:
        _do(args)
    except InvalidInputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _do(args: argparse.Namespace) -> None:
    cases = small_plan() if args.small else plan()
    if args.page:
        # The page needs the laboratory and matplotlib, which need not be where it is measured.
        from benchmarks.sizes.page import write_page

        print(write_page(args.raw, args.page))
        return
    if args.foresee:
        foresee(missing(cases, read_raw(args.raw)))
        return

    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is to be asked for, nor waited for
    import_once(["benchmarks.sizes.measure"])
    run(cases, args.raw, args.minutes, 8 if args.small else PROMPT_TOKENS, args.commit)


def foresee(cases: Iterable[Case]) -> None:
    """Print the cases, and about when each of them ends."""
    seconds = 0.0
    for case in cases:
        seconds += case.foreseen_seconds
        print(f"{seconds / 60:5.1f} min  {in_words(case)}")


def run(
    cases: Iterable[Case],
    raw: Path,
    minutes: float,
    prompt_tokens: int,
    commit: str = "",
    call: Call = in_own_process,
) -> None:
    """Measure the cases that the file lacks, one after the other, and append each at once.

    A case that is foreseen to take longer than is left is passed over, as shorter ones may follow.
    What is larger than one that did not fit is not tried. Where all fail, time is spared.

    Args:
        cases: The most important first.
        raw: The raw file.
        minutes: A case that is at work when they are over is killed, and is measured next time.
        prompt_tokens: The tokens of each prompt.
        commit: The commit of the code.
        call: Calls the function that measures a case; by default in a process of its own.

    Raises:
        InvalidInputError: The file holds cases of another device or of other versions.
        CallFailedError, TimeoutError: Nothing can be measured here.
    """
    ends = time.monotonic() + 60 * minutes
    lines = read_raw(raw)
    here = call("benchmarks.sizes.where:describe", _PACKAGES, seconds=TO_BEGIN)
    refuse_others(lines, here, _ALIKE, raw)
    where = {**here, "commit": commit}
    print(where, flush=True)

    pace = _Pace(lines)
    failures = 0  # in a row
    for case in missing(cases, lines):
        if did_not_fit(case, lines):
            continue
        left = ends - time.monotonic()
        if pace.foresees(case) > left:
            print(f"no time is left for {in_words(case)}", flush=True)
            continue

        began = time.monotonic()
        hangs_after = max(_HANGS_AFTER_SECONDS, _HANGS_AFTER_TIMES * pace.foresees(case))
        try:
            found = _found(call, case, prompt_tokens, left, hangs_after)
        except TimeoutError:
            print(f"time is over, so this was cut off: {in_words(case)}", flush=True)
            return

        took = time.monotonic() - began
        if found["fits"]:  # what ended early says nothing of the others
            pace.took(case, took)
        failures = failures + 1 if found["fits"] is None else 0
        line = {
            "case": case.as_json(),
            "prompt_tokens": prompt_tokens,
            **found,
            "took_seconds": round(took, 1),
            "where": where,
        }
        append(raw, line)
        lines.append(line)
        print(f"{took:5.0f} s  {in_words(case)}: {found}", flush=True)

        if failures == _MOST_FAILURES:
            print(f"{failures} cases failed one after the other, so no other is tried", flush=True)
            return


def _found(
    call: Call, case: Case, prompt_tokens: int, left: float, hangs_after: float
) -> dict[str, Any]:
    """The result of a case, or why it failed; it also fails if it hangs.

    Raises:
        TimeoutError: The seconds that were left are over.
    """
    seconds = min(left, hangs_after)
    try:
        found: dict[str, Any] = call(
            "benchmarks.sizes.measure:measure", case, prompt_tokens, seconds=seconds
        )
    except CallFailedError as error:
        return {"fits": None, "failed": str(error)}
    except TimeoutError as error:
        if seconds == left:
            raise
        return {"fits": None, "failed": str(error)}
    return found


class _Pace:
    """The pace of cases here: their seconds beside the foreseen ones.

    Args:
        lines: What was measured before.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._foreseen = 0.0
        self._taken = 0.0
        for line in lines:
            if line["fits"]:
                self.took(case_of(line), line["took_seconds"])

    def took(self, case: Case, seconds: float) -> None:
        """Note how long a case took."""
        self._foreseen += case.foreseen_seconds
        self._taken += seconds

    def foresees(self, case: Case) -> float:
        """The seconds that a case will take, at the pace of those before it."""
        pace = self._taken / self._foreseen if self._foreseen else 1.0
        return case.foreseen_seconds * pace


if __name__ == "__main__":
    raise SystemExit(main())
