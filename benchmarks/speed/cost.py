"""The cost of selecting in a step, by rollouts and processes: `python -m benchmarks.speed.cost`.

python -m benchmarks.speed.cost              # a minute or two on two free cores
python -m benchmarks.speed.cost --page       # the page and its figure from the raw file: seconds
python -m benchmarks.speed.cost --quick DIR  # a minute, into another folder: to see that it works

It measures TRL's host with real processes, counts the bytes of more of them, and times the rules
and slime's part. verl's part is in the raw file, too, and stays: `nox -s hosts` measures it.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.folders import RESULTS
from benchmarks.speed import cost_page, exchange, hosts, rules
from benchmarks.speed.exchange import Size
from benchmarks.speed.simulated import bytes_sent
from podsrl.rollout_log.environment import describe_environment
from podsrl.rollout_log.files import write_json

RAW = RESULTS / "cost.json"
_SIZE = Size(tokens=512, num_rollouts=32, num_kept=8, generations=5)


@dataclass(frozen=True)
class Plan:
    """The sizes that are measured.

    Args:
        size: The size of every generation: tokens, n and m, the rule, how many are timed.
        worlds: The numbers of processes.
        rollouts: The numbers of rollouts of all processes together.
        simulated: The numbers of processes whose bytes are counted.
        by_process: The rollouts of each process where all have as many, whatever their number.
        prompts: The sizes of which rules are timed.
        rows: The rows of slime's part.
    """

    size: Size = _SIZE
    worlds: tuple[int, ...] = (1, 2, 4, 8)
    rollouts: tuple[int, ...] = (256, 1024, 4096, 16384)
    simulated: tuple[int, ...] = (2, 4, 8, 64, 512)
    by_process: int = 256
    prompts: tuple[tuple[int, int], ...] = rules.SIZES
    rows: tuple[int, ...] = hosts.ROWS


QUICK = Plan(
    size=Size(tokens=16, num_rollouts=8, num_kept=2, generations=1),
    worlds=(1, 2),
    rollouts=(32, 64),
    simulated=(2, 4),
    by_process=16,
    prompts=((4, 64), (8, 64)),
    rows=(64, 128),
)


def measure(plan: Plan) -> dict[str, Any]:
    """Everything of a plan, as the raw file has it; numbers of rollouts are those of all."""
    load = os.getloadavg()
    measured = []
    for rollouts in plan.rollouts:
        for world in plan.worlds:
            processes = exchange.measure(_size(plan, world, rollouts))
            of_all = {"processes": [asdict(of) for of in processes]}
            measured.append({"world": world, "rollouts": rollouts} | of_all)
            print(f"measured    {world} processes, {rollouts:,} rollouts", flush=True)

    simulated = []
    for world in plan.simulated:
        # Once as many rollouts of all processes, and once as many of each.
        for rollouts in sorted({max(plan.rollouts), world * plan.by_process}):
            simulated.append(_simulated(plan, world, rollouts))
            print(f"counted     {world} processes, {rollouts:,} rollouts", flush=True)

    rules_measured = rules.measure(plan.prompts)
    of_slime = hosts.of_slime(plan.rows)
    return {
        "environment": describe_environment(),
        "load": {"before": load, "after": os.getloadavg()},
        "size": asdict(replace(plan.size, world=0, rollouts=0)),
        "by_process": plan.by_process,
        "measured": measured,
        "simulated": simulated,
        "rules": [asdict(of) for of in rules_measured],
        "slime": hosts.described(of_slime),
    }


def _size(plan: Plan, world: int, rollouts: int) -> Size:
    return replace(plan.size, world=world, rollouts=rollouts // world)


def _simulated(plan: Plan, world: int, rollouts: int) -> dict[str, Any]:
    sent = bytes_sent(_size(plan, world, rollouts))
    moved = [of.moved for of in sent]
    return {
        "world": world,
        "rollouts": rollouts,
        "numbers": max(of.numbers for of in sent),
        "moved_most": max(moved),
        "moved_median": statistics.median(moved),
        "moved_by_all": sum(moved),
        "others": max(of.others for of in sent),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the raw file, and from it the page and the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.cost", description=__doc__)
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--quick", type=Path, metavar="DIR", help="small, into this folder")
    args = parser.parse_args(argv)

    raw = args.quick / RAW.name if args.quick else RAW
    if not args.page:
        before = json.loads(raw.read_text(encoding="utf-8")) if raw.is_file() else {}
        found = measure(QUICK if args.quick else Plan())
        found |= {name: before[name] for name in before if name.startswith("verl")}
        write_json(raw, found)
    cost_page.write(raw)
    print(raw.with_suffix(".md").read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
