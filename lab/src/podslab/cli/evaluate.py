"""`pods evaluate`: measure a checkpoint on a task."""

import argparse
import json
from dataclasses import asdict, fields, replace
from pathlib import Path

from podslab.checks import number
from podsrl.errors import needed

SUMMARY = "measure the accuracy of a checkpoint on a task"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    checkpoint = "a model folder, a checkpoint, a hub name, 'tiny' or 'smollm2'"
    parser.add_argument("checkpoint", help=checkpoint)

    # What is asked.
    parser.add_argument("--task", required=True, help="a task's name, or the path of its file")
    parser.add_argument("--task_options", help="options of the task, as JSON")
    parser.add_argument("--data_path", help="local file or folder with the data (from the hub)")
    parser.add_argument("--split", default="test", help="split to measure on (test)")
    problems = "number of problems, spread over the split (all)"
    parser.add_argument("--problems", type=number(int, 1), help=problems)
    repeats = "completions of each problem, k (1)"
    parser.add_argument("--repeats", type=number(int, 1), default=1, help=repeats)

    # How answers are sampled.
    temperature = "sampling temperature; 0 is greedy (as in the checkpoint's run, else 1.0)"
    parser.add_argument("--temperature", type=number(float, 0), help=temperature)
    parser.add_argument(
        "--max_completion_length",
        dest="max_new_tokens",
        type=number(int, 1),
        help="tokens of a completion, at most (as in the checkpoint's run, else 512)",
    )
    batch_size = "completions generated at once (as in the checkpoint's run, else 64)"
    parser.add_argument("--batch_size", type=number(int, 1), help=batch_size)
    seed = "seed of the sampling (as in the checkpoint's run, else 0)"
    parser.add_argument("--seed", type=number(int, 0), help=seed)

    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Load, sample, grade, print."""
    from podslab.tasks import get_task
    from podslab.tasks.base import spread

    with needed("trl"):
        from podslab.training.config_file import parse_options
        from podslab.training.preflight import check_data_path, check_model, check_split

        task = get_task(args.task, **parse_options(args.task_options))
        check_split(task, args.task, args.split)
        check_data_path("--data_path", args.data_path)
        check_model(args.checkpoint)
        rows = spread(task.load(args.split, args.data_path), args.problems)

        from podslab.cli import run_output
        from podslab.evaluation.sampling import Sampling, sample_and_grade, score
        from podslab.models.load import load_model
        from podsrl.rollout_log.run_folder import RunFolder

    folders = [Path(args.checkpoint), Path(args.checkpoint).parent]
    runs = [run for run in map(RunFolder, folders) if folders[0].is_dir() and run.environment()]
    given = {field.name: getattr(args, field.name, None) for field in fields(Sampling)}
    sampling = replace(
        Sampling.as_in(runs[0].config() if runs else {}),
        **{name: value for name, value in given.items() if value is not None},
    )

    model, tokenizer = load_model(args.checkpoint, run_output.bar("warm-starting the tiny model"))
    shown = run_output.bar("evaluating")
    scores = score(sample_and_grade(model, tokenizer, task, rows, args.repeats, sampling, shown))

    if args.json:
        print(json.dumps({"task": args.task, "problems": len(rows), **asdict(scores)}))
        return 0

    print(f"{args.checkpoint} on {args.task} {args.split}: {len(rows)} problems x {args.repeats}")
    whose = f"; other settings as in {runs[0].path}" if runs else ""
    print(f"temperature {sampling.temperature:g}, {sampling.max_new_tokens} tokens at most{whose}")
    print(run_output.accuracy_line("", scores).strip())
    return 0
