"""Measure on a GPU what its raw file lacks, in a quarter of an hour.

python -m benchmarks.card RAW.jsonl --minutes 14    # on a GPU, with vLLM
python -m benchmarks.card RAW.jsonl --small         # the same with tiny shapes, on a CPU
python -m benchmarks.card RAW.jsonl --foresee       # says what is missing, and how long it takes

The same command goes on where it was cut. A case that failed is tried once more by the next
command. Run it from the root of the checkout.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.card.plan import (
    Case,
    Comparison,
    by_process,
    foreseen_seconds,
    missing,
    plan,
    small_plan,
)
from benchmarks.folders import ROOT
from benchmarks.own_process import CallFailedError, import_once, in_own_process
from benchmarks.sizes.raw_file import append, read_raw
from benchmarks.sizes.where import TO_BEGIN, refuse_others
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.environment import git_state

#: Calls a function by its name, for at most so many `seconds`, as `in_own_process` does.
Call = Callable[..., Any]

_PACKAGES = ("torch", "transformers", "trl", "peft", "vllm")
#: What a raw file's lines have in common.
_ALIKE = ("device", "allocator", *_PACKAGES)
#: A process hangs if it takes so many times what is foreseen, and at least so many seconds.
_HANGS_AFTER_TIMES = 4.0
_HANGS_AFTER_SECONDS = 150.0
#: A case that stops by itself has so many seconds to do so.
_TO_STOP = 15.0
#: A comparison writes its runs here, in a folder by the name of the raw file.
_RUNS = ROOT / "runs" / "card"
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",  # nothing is to be asked for, nor waited for
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # so that what is printed shows what failed
    "PYTHONWARNINGS": "ignore",
    "TRANSFORMERS_VERBOSITY": "error",
}


def main(arguments: list[str] | None = None) -> int:
    """Measure what the raw file lacks."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.card",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("raw", type=Path, help="the raw file, a line for each case")
    parser.add_argument("--minutes", type=float, default=14, help="end after these (14)")
    parser.add_argument("--small", action="store_true", help="tiny shapes, on a CPU")
    parser.add_argument("--foresee", action="store_true", help="measure nothing")
    parser.add_argument("--commit", help="of the code, to be noted (that of the checkout)")
    args = parser.parse_args(arguments)

    cases = small_plan() if args.small else plan()
    if args.foresee:
        foresee(missing(cases, read_raw(args.raw)))
        return 0

    os.environ.update(_ENVIRONMENT)
    # It imports vLLM, too, which forks processes of its own and so leaves CUDA alone till then.
    import_once(["benchmarks.card.measure"])
    commit = args.commit or (git_state(Path.cwd()) or {}).get("commit", "")
    # On a CPU nobody has foreseen how long a case takes.
    hangs_after = 60 * args.minutes if args.small else _HANGS_AFTER_SECONDS
    try:
        run(cases, args.raw, args.minutes, commit, hangs_after=hangs_after)
    except InvalidInputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def foresee(cases: Iterable[Case]) -> None:
    """Print the cases, how long each takes, and when its process ends, on an H200 about."""
    ends = 0.0
    for group in by_process(cases):
        ends += foreseen_seconds(group)
        for case in group:
            print(f"{case.foreseen_seconds:5.0f} s  {case.title}")
        print(f"{ends / 60:5.1f} min")


def run(
    cases: Iterable[Case],
    raw: Path,
    minutes: float,
    commit: str = "",
    call: Call = in_own_process,
    hangs_after: float = _HANGS_AFTER_SECONDS,
) -> None:
    """Measure the cases that the file lacks, one after the other, and append each at once.

    A case that is foreseen to take longer than is left is passed over, as shorter ones may follow.
    A case that fails has a line that says why, and so have those after it in its process.

    Args:
        cases: The most important first.
        raw: The raw file.
        minutes: A case that is at work when they are over is killed, and is measured next time.
        commit: The commit of the code.
        call: Calls the function that measures; by default in a process of its own.
        hangs_after: A process that takes longer than is foreseen may take at least these seconds.

    Raises:
        InvalidInputError: The file holds cases of another device or of other versions.
        CallFailedError, TimeoutError: Nothing can be measured here.
    """
    ends = time.monotonic() + 60 * minutes
    lines = read_raw(raw)
    where = _where(call, max(TO_BEGIN, hangs_after))
    refuse_others(lines, where, _ALIKE, raw)
    noted = {"where": {**where, "commit": commit}}
    print(noted, flush=True)

    groups = by_process(missing(cases, lines))
    for place, group in enumerate(groups):
        left = ends - time.monotonic()
        first = group[0]
        if first.needed_seconds > left:
            print(f"no time is left for {first.title}", flush=True)
            continue

        allowed = min(left, max(hangs_after, _HANGS_AFTER_TIMES * foreseen_seconds(group)))
        if isinstance(first, Comparison):
            # It stops by itself, and leaves what the cases after it need.
            later = sum(foreseen_seconds(other) for other in groups[place + 1 :])
            allowed = max(left - later, 2 * _TO_STOP)
        began = time.monotonic()
        try:
            name = "benchmarks.card.measure:measure"
            call(name, group, raw, noted, _RUNS / raw.stem, allowed - _TO_STOP, seconds=allowed)
        except TimeoutError as error:
            if allowed == left:
                print(f"time is over, so this was cut off: {first.title}", flush=True)
                return
            _note_failure(group, raw, noted, str(error))
        except CallFailedError as error:
            _note_failure(group, raw, noted, str(error))
        print(f"{time.monotonic() - began:5.0f} s  {first.title}", flush=True)


def _where(call: Call, seconds: float) -> dict[str, Any]:
    """The hardware and the versions here, "" for a package that is not installed."""
    installed = [name for name in _PACKAGES if find_spec(name) is not None]
    here: dict[str, Any] = call("benchmarks.sizes.where:describe", installed, seconds=seconds)
    return {**dict.fromkeys(_PACKAGES, ""), **here}


def _note_failure(group: Sequence[Case], raw: Path, noted: dict[str, Any], why: str) -> None:
    """Append why the first case failed that has no line, and that those after it were not reached.

    They need more than it, or the same engine, so they are not tried in this run.
    """
    left = missing(group, read_raw(raw))
    for place, case in enumerate(left):
        reason = f"not reached after: {why}" if place else why
        append(raw, {"case": case.as_json(), "failed": reason, **noted})
        print(f"failed: {case.title}: {reason}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
