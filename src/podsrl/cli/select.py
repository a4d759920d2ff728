"""`pods select`: down-sample rollouts in a file, without any trainer."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podsrl.cli.field_options import add_field_options, fields_of
from podsrl.errors import InvalidInputError, fields_named, needed
from podsrl.inspector.fields import Fields, read_fields
from podsrl.inspector.grouping import are_split, group_rollouts
from podsrl.rewards import as_number, is_number
from podsrl.rollout_log.files import json_object
from podsrl.rollout_log.output import OutputFile
from podsrl.selection import Selection

SUMMARY = "choose rollouts in a file by a rule, and write the kept ones"

_SAMPLE = 200  # rows by which fields are told

#: What the fields of a selection are called on this command line.
_FIELD_NAMES = {
    "num_rollouts": "of a group",
    "num_kept": "--keep",
    "rule": "--rule",
    "seed": "--seed",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods select`: what is read, what is kept of it, where that goes."""
    parser.add_argument(
        "rollouts",
        type=Path,
        help="a JSONL or parquet file with one rollout per line or row, or a run's folder",
    )

    # What is kept.
    parser.add_argument(
        "--keep",
        type=int,
        required=True,
        metavar="M",
        help="rollouts to keep of each prompt; with a batch rule a mean over prompts",
    )
    parser.add_argument(
        "--rule",
        default="max_variance",
        help="the name of a rule, or file.py:function (max_variance). A batch rule, such as"
        " max_contrast, chooses among all prompts of the file",
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="break ties at random by this seed (without it by the lowest index)",
    )

    # What the file says of each rollout.
    add_field_options(parser, numbers=False)

    parser.add_argument(
        "--output",
        type=Path,
        help="new file for the kept rollouts: .parquet for parquet and for a run's folder, .jsonl"
        " for JSONL (stdout)",
    )


def run(args: argparse.Namespace) -> int:
    """Read, select, write the kept rollouts as they were.

    Groups may differ in size; a prompt rule keeps one of `--keep` rollouts or fewer whole.
    """
    files = _files(args.rollouts)
    is_parquet = files[0].suffix == ".parquet"
    output = _output(args.output, args.rollouts, files[0].suffix)

    source: Any
    with needed("rollouts"):
        rows, source = _read_parquet(files) if is_parquet else _read_lines(files[0])
    if is_parquet and output is None:
        raise InvalidInputError("parquet can't be printed: add --output kept.parquet")

    groups = _rewards_of_groups(rows, args.rollouts, fields_of(args))
    _tell_of_no_contrast(groups)
    kept = _select(groups, args)
    if not is_parquet:
        _write_lines(source, kept, output)
    elif output is not None:
        _write_parquet(source, kept, output)
    print(f"kept {len(kept)} of {len(rows)} rollouts in {len(groups)} groups", file=sys.stderr)
    return 0


def _files(path: Path) -> list[Path]:
    """The files with rollouts that a path means."""
    if path.is_file():
        return [path]
    with needed("rollouts"):
        from podsrl.rollout_log.run_folder import RunFolder

    run = RunFolder(path)
    files = [part for step in run.rollout_steps() for part in run.rollout_parts(step)]
    files = files or sorted(path.glob("*.parquet"))
    if not files:
        what = "rollouts/*/*.parquet in" if path.is_dir() else "file"
        raise InvalidInputError(f"no {what} {path}")
    return files


def _output(path: Path | None, read: Path, suffix: str) -> OutputFile | None:
    """Where to write; refused if it exists, or is of another kind than what is read."""
    if path is None:
        return None
    usual = ".parquet" if suffix == ".parquet" else ".jsonl"
    suffixes = tuple(dict.fromkeys(kind for kind in (suffix, usual) if kind))
    output = OutputFile(path, "--output", suffixes, inputs=[read])
    output.check()
    if read.is_dir() and path.resolve().is_relative_to(read.resolve()):
        raise InvalidInputError(
            f"--output {path} is in the folder that is read, where it would be read itself the next"
            " time: name a file elsewhere"
        )
    return output


def _select(groups: Sequence[dict[int, float]], args: argparse.Namespace) -> list[int]:
    """The places of the rollouts that are kept, ascending."""
    largest = max(2, args.keep, *map(len, groups))
    with fields_named(_FIELD_NAMES):
        # The baseline does not matter here: it lets a rule keep one rollout of each group.
        selection = Selection(
            num_rollouts=largest,
            num_kept=args.keep,
            rule=args.rule,
            baseline="group",
            seed=args.seed,
        )
    chosen = selection.select([list(group.values()) for group in groups])
    return sorted(
        list(group)[rollout] for group, kept in zip(groups, chosen, strict=True) for rollout in kept
    )


def _tell_of_no_contrast(groups: Sequence[dict[int, float]]) -> None:
    """Say where no group has two rewards, so that nothing is to be chosen by them."""
    rewards = [{reward for reward in group.values() if reward == reward} for group in groups]
    if any(len(different) > 1 for different in rewards):
        return
    what = "the rewards of each group are equal" if any(rewards) else "no rollout has a reward"
    print(f"note: {what}, so the choice is arbitrary and no group teaches", file=sys.stderr)


def _read_lines(path: Path) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The rollouts of a JSONL file, and its lines."""
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    if text.lstrip().startswith(b"["):
        raise InvalidInputError(
            f"{path} is one JSON list, and JSONL has a rollout on each line: write it so, as by"
            " `jq -c '.[]'`"
        )
    rows: list[dict[str, Any]] = []
    lines: list[bytes] = []
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json_object(line, f"{path}, line {number}"))
        except InvalidInputError:
            if number <= text.count(b"\n"):
                raise
            print(f"note: {path}, line {number} is half-written and was skipped", file=sys.stderr)
            break
        lines.append(line)
    return rows, lines


def _read_parquet(files: Sequence[Path]) -> tuple[list[dict[str, Any]], Any]:
    """The rollouts of parquet files without their completions, and the table of all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    schema = pa.schema([])
    for file in files:
        try:
            table = pq.read_table(file)
            schema = pa.unify_schemas([schema, table.schema], promote_options="permissive")
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"{file} is damaged, or unlike the others: {error}") from error
        tables.append(table)

    table = pa.concat_tables(tables, promote_options="permissive")
    cheap = [name for name in table.column_names if name != "completion"]
    return table.select(cheap).to_pylist(), table


def _write_parquet(table: Any, kept: Sequence[int], output: OutputFile) -> None:
    import pyarrow.parquet as pq

    with output.writing() as part:
        pq.write_table(table.take(kept), part, compression="zstd")


def _write_lines(lines: Sequence[bytes], kept: Sequence[int], output: OutputFile | None) -> None:
    text = b"".join(lines[place] + b"\n" for place in kept)
    if output is None:
        sys.stdout.buffer.write(text)
    else:
        output.write(text)


def _rewards_of_groups(
    rows: Sequence[dict[str, Any]], path: Path, fields: Fields
) -> list[dict[int, float]]:
    """The rewards of each group, by the place of the rollout in the file; refused if unusable.

    A group is what the file says of one step, else the rollouts of one prompt text and step.
    """
    reading = read_fields(rows[:_SAMPLE], fields, str(path), needs=("reward",))
    by_text = "group" not in reading.names
    if by_text and not reading.conversation and "prompt" not in reading.names:
        reading = read_fields(rows[:_SAMPLE], fields, str(path), needs=("prompt", "reward"))

    steps: list[int] = []
    keys: list[str] = []
    prompts: list[int] = []  # hashes of their texts
    rewards: list[float] = []
    numbers: dict[str, int] = {}
    for place, row in enumerate(rows):
        where = f"{path}, rollout {place + 1}"
        known = reading.rollout(row)
        key = known.get("prompt" if by_text else "group")
        if key in (None, ""):
            name = "prompt" if by_text else reading.names["group"]
            raise InvalidInputError(
                f"{where}: no field {name!r}; it has {', '.join(map(repr, row))}"
            )
        value = known["reward"]
        if value is not None and not is_number(value):
            raise InvalidInputError(f"{where}: the reward must be a number or null; got {value!r}")

        step = json.dumps(known.get("step"), default=str)
        steps.append(numbers.setdefault(step, len(numbers)))
        prompts.append(hash(json.dumps(known.get("prompt", place), default=str)))
        answer = known.get("answer") if by_text else None
        keys.append(json.dumps([key, answer], sort_keys=True, default=str))
        rewards.append(as_number(value))

    groups = group_rollouts(steps, keys, by_text)
    if are_split(groups, prompts):
        print(
            "note: each rollout is a group of its own, though prompts come again: --group FIELD"
            " names a field that tells groups apart",
            file=sys.stderr,
        )
    for size, usual in list(groups.doubtful.values())[:1]:
        print(
            f"note: one prompt has {size} rollouts and others have {usual}. Perhaps several"
            " questions have the same text: --group FIELD names a field that tells them apart",
            file=sys.stderr,
        )
    return [{place: rewards[place] for place in places} for places in groups.places.values()]
