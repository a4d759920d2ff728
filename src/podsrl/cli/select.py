"""`pods select`: down-sample rollouts in a file, without any trainer."""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError, needed
from podsrl.rollout_log.files import json_object, write_whole
from podsrl.selection import Selection, as_number, is_number

SUMMARY = "keep the rollouts in a file that a rule chooses"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods select`."""
    what = "a JSONL or parquet file with one rollout per line or row, or a run's folder"
    parser.add_argument("rollouts", type=Path, help=what)
    number = "rollouts per group; with a rule across groups, on average"
    parser.add_argument("--keep", type=int, required=True, metavar="M", help=number)
    rule = "max_variance (default); across all groups of the file max_contrast; file.py:function"
    parser.add_argument("--rule", default="max_variance", help=f"which to keep: {rule}")
    group = "field that says which group a rollout is of (prompt; of a run its step and group)"
    parser.add_argument("--group_by", metavar="FIELD", help=group)
    reward = "field with the reward (reward); null of a rollout that could not be scored"
    parser.add_argument("--reward", default="reward", metavar="FIELD", help=reward)
    parser.add_argument("--seed", type=int, help="breaks ties at random; default: lowest index")
    output = "file to write, of the kind that is read; must not exist (JSONL: stdout)"
    parser.add_argument("--output", type=Path, help=output)


def run(args: argparse.Namespace) -> int:
    """Read, select, write the kept rollouts as they were.

    Groups may differ in size; a group rule keeps one of `--keep` rollouts or fewer whole.
    """
    path, output = args.rollouts, args.output
    if output and output.exists():
        raise InvalidInputError(f"{output} exists; choose another --output or remove it")
    inside = sorted(path.glob("rollouts/*.parquet")) or sorted(path.glob("*.parquet"))
    files = [path] if path.is_file() else inside
    if not files:
        raise InvalidInputError(f"no {'rollouts/*.parquet in' if path.is_dir() else 'file'} {path}")
    of_parquet = (suffix := files[0].suffix) == ".parquet"
    if output and output.suffix not in (suffix, ".parquet" if of_parquet else ".jsonl"):
        raise InvalidInputError(f"{output} must end in {suffix or '.jsonl'}, as what is read")
    source: Any
    with needed("rollouts"):
        rows, source = _read_parquet(files) if of_parquet else _read_lines(path)
    if of_parquet and not output:
        raise InvalidInputError("parquet can't be printed; say where to write with --output")
    groups = _rewards_of_groups(rows, path, args.group_by, args.reward)
    names = {"num_rollouts": "of a group", "num_kept": "--keep", "rule": "--rule", "seed": "--seed"}
    n = max(2, args.keep, *map(len, groups))
    given = {"rule": args.rule, "baseline": "group", "seed": args.seed, "names": names}
    selection = Selection(n, args.keep, **given)
    chosen = selection.select([list(group.values()) for group in groups])
    kept = sorted(list(g)[i] for g, places in zip(groups, chosen, strict=True) for i in places)
    if of_parquet:
        import pyarrow.parquet as pq

        output.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(source.take(kept), output, compression="zstd")
    else:
        lines = b"".join(source[place] + b"\n" for place in kept)
        write_whole(output, lines) if output else sys.stdout.buffer.write(lines)
    print(f"kept {len(kept)} of {len(rows)} rollouts in {len(groups)} groups", file=sys.stderr)
    return 0


def _read_lines(path: Path) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The rollouts of a JSONL file, and its lines."""
    numbered = enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1)
    lines = [(f"{path}, line {i}", line) for i, line in numbered if line.strip()]
    return [json_object(line, where) for where, line in lines], [line for _, line in lines]


def _read_parquet(files: Sequence[Path]) -> tuple[list[dict[str, Any]], Any]:
    """The rollouts of parquet files without their completions, and the table of all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables, schema = [], pa.schema([])
    for file in files:
        try:
            tables.append(pq.read_table(file))
            schema = pa.unify_schemas([schema, tables[-1].schema], promote_options="permissive")
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"{file} is damaged, or unlike the others: {error}") from error
    table = pa.concat_tables(tables, promote_options="permissive")
    cheap = [name for name in table.column_names if name != "completion"]
    return table.select(cheap).to_pylist(), table


def _rewards_of_groups(
    rows: Sequence[dict[str, Any]], path: Path, group_by: str | None, reward: str
) -> list[dict[int, float]]:
    """The rewards of each group, by the place of the rollout in the file; refused if unusable."""
    if not rows:
        raise InvalidInputError(f"{path}: there are no rollouts in it")
    ours = {"step", "group", "rollout"} <= set(rows[0])
    fields = [group_by] if group_by else ["step", "group"] if ours else ["prompt"]
    groups: dict[str, dict[int, float]] = defaultdict(dict)
    for place, row in enumerate(rows):
        where = f"{path}, rollout {place + 1}"
        for field in fields:
            if row.get(field) in (None, ""):
                raise InvalidInputError(f"{where}: no field {field!r}")
        value = row.get(reward, "missing")
        if value is not None and not is_number(value):
            raise InvalidInputError(f"{where}: {reward!r} must be a number or null; got {value!r}")
        key = json.dumps([row[field] for field in fields], sort_keys=True, default=str)
        groups[key][place] = as_number(value)
    return list(groups.values())
