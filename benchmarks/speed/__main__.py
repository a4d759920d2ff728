"""`python -m benchmarks.speed`: what selecting costs and saves, and how a step grows, here."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from benchmarks.speed import parts
from benchmarks.speed.parts import Part
from benchmarks.speed.scale import Scale
from benchmarks.speed.tables import Table
from podslab.cli import progress
from podslab.report.durations import duration
from podsrl.rollout_log.files import write_json, write_whole
from podslab.models.tiny import get_model

PARTS = ("selection", "step", "growth", "generation")


def arguments() -> argparse.ArgumentParser:
    """What may be said on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.epilog = (
        "Kill it whenever you like: with --resume the parts that were finished are not measured"
        " again."
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", help="these parts")
    parser.add_argument("--quick", action="store_true", help="small, in a minute: just to see it")
    parser.add_argument("--output_dir", default="runs/bench", help="(runs/bench)")
    parser.add_argument("--resume", action="store_true", help="keep the parts measured before")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables to a page, too")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and stop")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Plan, measure, tabulate; 0 whether or not the bars are met."""
    args = arguments().parse_args(argv)

    scale = Scale.quick() if args.quick else Scale()
    folder = Path(args.output_dir)
    chosen = [parts.PARTS[name] for name in PARTS if name in (args.only or PARTS)]
    found = {}
    for part in chosen:
        if args.resume and (earlier := parts.finished(part, scale, folder)):
            found[part.name] = earlier
    print(_plan(chosen, set(found), args.quick), flush=True)
    if args.dry_run:
        return 0
    left = [part for part in chosen if part.name not in found]
    model = _model(scale, left)
    for part in left:
        with _Bar(part.name) as bar:
            found[part.name] = parts.measure(part, scale, model, folder, bar.report)
    found = {part.name: found[part.name] for part in chosen}
    made = parts.tables(found)
    write_json(folder / "tables.json", {"tables": [table.as_json() for table in made]})
    for table in made:
        print(f"\n{table.as_text()}")
    if args.markdown:
        write_whole(Path(args.markdown), parts.page(found).encode())
    print(f"\n{_verdict(made)}\n\nnumbers     {folder}/*.json")
    if args.markdown:
        print(f"page        {args.markdown}")
    return 0


def _plan(chosen: list[Part], done: set[str], quick: bool) -> str:
    lines, total = [], 0.0
    for part in chosen:
        minutes = part.quick_minutes if quick else part.minutes
        total += 0 if part.name in done else minutes
        cost = "measured before" if part.name in done else f"about {duration(60 * minutes)}"
        lines.append(f"{part.name:<11} {part.what} ({cost})")
    threads = os.environ.get("OMP_NUM_THREADS", "as many as torch takes")
    lines.append(
        f"\nAbout {duration(60 * total)} on two free cores; threads: {threads}. Leave the machine"
        " alone meanwhile: what else runs on it is measured, too."
    )
    return "\n".join(lines)


def _model(scale: Scale, chosen: list[Part]) -> str:
    """The embedded model, built now if a part needs it and it has not been built before."""
    if all(part.name == "selection" for part in chosen):
        return ""
    return str(get_model(scale.tiny, progress=progress.bar("warm-starting the tiny model")))


def _verdict(made: list[Table]) -> str:
    bars = [bar for table in made for bar in table.bars]
    count = {v: sum(b.verdict == v for b in bars) for v in ("met", "missed", "not measured")}
    lines = [", ".join(f"{number} {verdict}" for verdict, number in count.items() if number)]
    for table in made:
        lines += [f"missed: {table.title}: {b.what}" for b in table.bars if b.verdict == "missed"]
    return "bars: " + "\n".join(lines)


class _Bar:
    """A progress bar for one part."""

    def __init__(self, name: str) -> None:
        self._bar: Any = tqdm(desc=name, total=1, leave=False, dynamic_ncols=True)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def report(self, done: int, total: int, what: str) -> None:
        """Move on to `done` of `total`; `what` was or is being measured."""
        self._bar.total = total
        self._bar.set_postfix_str(what, refresh=False)
        self._bar.update(done - self._bar.n)


if __name__ == "__main__":
    sys.exit(main())
