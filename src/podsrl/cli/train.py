"""`pods train`: one run from a YAML config and flags."""

import argparse

SUMMARY = "train with GRPO-PODS from a YAML config"
TAKES_FIELDS = True


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; every other --field is one of the config's."""
    parser.usage = "pods train --config FILE [--dry-run] [--any_field value ...]"
    parser.epilog = (
        "Any field of RunArguments, podsrl.trl.PODSConfig (with all of TRL's GRPOConfig) and TRL's"
        " ModelConfig can stand in the file or be given as a flag, which wins."
    )
    parser.add_argument(
        "--config", required=True, help="a YAML file, or the name of a shipped config"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and stop")


def run(args: argparse.Namespace) -> int:
    """Preview, train, and tell what came of it."""
    from podsrl.cli.needs import needed

    with needed("trl"):
        from accelerate import PartialState

        from podsrl.cli import progress
        from podsrl.cli.print_result import print_result
        from podsrl.experiments import run as experiment
        from podsrl.experiments import settings
        from podsrl.experiments.preview import Preview

    # a dry run must not need the GPUs that it is about
    here = ["--use_cpu", "true"] if args.dry_run else []
    spec = settings.parse(settings.read_config(args.config), [*args.fields, *here])
    if args.dry_run:
        print(Preview.of(spec).describe(spec, ["--config", args.config, *args.fields]))
        return 0
    processes = PartialState()
    data = experiment.load_data(spec)
    if processes.is_main_process:
        print(Preview.of(spec, len(data.train)).describe(spec), flush=True)
    with progress.TrainingBar() as training_bar:
        result = experiment.train(spec, data, [training_bar], progress.bar)
    if processes.is_main_process:
        print_result(result)
    processes.destroy_process_group()
    return 0
