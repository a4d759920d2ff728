"""`pods evaluate`: measure a checkpoint on a task."""

import argparse

SUMMARY = "measure a checkpoint on a task: accuracy over k repeats"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("checkpoint", help="a model folder, a checkpoint, a hub name, or 'tiny'")
    parser.add_argument("--task", required=True, help="a task's name, or the path of its file")
    parser.add_argument("--task_options", help="options of the task, as JSON")
    parser.add_argument("--data_path", help="local data of the task; default: the hub")
    parser.add_argument("--split", default="test", help="split to measure on (test)")
    parser.add_argument("--problems", type=int, help="use only this many problems; default: all")
    parser.add_argument("--repeats", type=int, default=1, help="k: completions per problem (1)")
    parser.add_argument("--temperature", type=float, default=1.0, help="0 is greedy (1.0)")
    parser.add_argument("--max_completion_length", type=int, default=512, help="tokens (512)")
    parser.add_argument("--batch_size", type=int, default=64, help="completions at once (64)")
    parser.add_argument("--seed", type=int, default=0, help="of the sampling (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")


def run(args: argparse.Namespace) -> int:
    """Load, sample, grade, print."""
    import json
    from dataclasses import asdict

    from podsrl.cli.needs import needed

    with needed("trl"):
        from podsrl.cli import progress
        from podsrl.cli.print_result import accuracy_line
        from podsrl.evaluation.models import load_model
        from podsrl.evaluation.sampling import Sampling, evaluate
        from podsrl.experiments.settings import parse_options
    from podsrl.errors import InvalidInputError
    from podsrl.tasks import get_task

    task = get_task(args.task, **parse_options(args.task_options))
    if args.split not in task.splits:
        raise InvalidInputError(
            f"task {args.task!r} has no split {args.split!r}; it has {', '.join(task.splits)}"
        )
    rows = task.load(args.split, args.data_path)[: args.problems]
    sampling = Sampling(
        temperature=args.temperature,
        max_new_tokens=args.max_completion_length,
        batch_size=args.batch_size,
        seed=args.seed,
    )
    model, tokenizer = load_model(args.checkpoint, progress.bar("warm-starting the tiny model"))
    scores = evaluate(
        model, tokenizer, task, rows, args.repeats, sampling, progress.bar("evaluating")
    )
    if args.json:
        print(json.dumps({"task": args.task, "problems": len(rows), **asdict(scores)}))
        return 0
    print(f"{args.checkpoint} on {args.task} {args.split}: {len(rows)} problems x {args.repeats}")
    print(accuracy_line("", scores).strip())
    return 0
