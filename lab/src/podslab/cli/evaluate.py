"""`pods evaluate`: measure a checkpoint on a task."""

import argparse

from podslab.cli.bounds import number

SUMMARY = "measure a checkpoint on a task: accuracy over k repeats"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("checkpoint", help="a model folder, a checkpoint, a hub name, or 'tiny'")
    parser.add_argument("--task", required=True, help="a task's name, or the path of its file")
    parser.add_argument("--task_options", help="options of the task, as JSON")
    parser.add_argument("--data_path", help="local data of the task; default: the hub")
    parser.add_argument("--split", default="test", help="split to measure on (test)")
    for name, kind, least, default, meaning in (
        ("problems", int, 1, None, "only the first so many; default: all"),
        ("repeats", int, 1, 1, "completions per problem, k (1)"),
        ("temperature", float, 0, 1.0, "of the sampling; 0 is greedy (1.0)"),
        ("max_completion_length", int, 1, 512, "tokens (512)"),
        ("batch_size", int, 1, 64, "completions at once (64)"),
        ("seed", int, 0, 0, "of the sampling (0)"),
    ):
        parser.add_argument(f"--{name}", type=number(kind, least), default=default, help=meaning)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")


def run(args: argparse.Namespace) -> int:
    """Load, sample, grade, print."""
    import json
    from dataclasses import asdict

    from podslab.tasks import get_task
    from podsrl.cli.needs import needed

    with needed("trl"):
        from podslab.training.config_file import parse_options
        from podslab.training.preflight import check_data_path, check_model, check_split

        task = get_task(args.task, **parse_options(args.task_options))
        check_split(task, args.task, args.split)
        check_data_path("--data_path", args.data_path)
        check_model(args.checkpoint)
        rows = task.load(args.split, args.data_path)[: args.problems]

        from podslab.cli import progress
        from podslab.cli.print_run import accuracy_line
        from podslab.evaluation.sampling import Sampling, sample_and_grade, score
        from podslab.models.load import load_model

    sampling = Sampling(
        temperature=args.temperature,
        max_new_tokens=args.max_completion_length,
        batch_size=args.batch_size,
        seed=args.seed,
    )
    model, tokenizer = load_model(args.checkpoint, progress.bar("warm-starting the tiny model"))
    shown = progress.bar("evaluating")
    scores = score(sample_and_grade(model, tokenizer, task, rows, args.repeats, sampling, shown))
    if args.json:
        print(json.dumps({"task": args.task, "problems": len(rows), **asdict(scores)}))
        return 0
    print(f"{args.checkpoint} on {args.task} {args.split}: {len(rows)} problems x {args.repeats}")
    print(accuracy_line("", scores).strip())
    return 0
