"""`pods train`: one run from a YAML config and flags."""

import argparse
from functools import cache

SUMMARY = "train with GRPO-PODS from a YAML config"
TAKES_FIELDS = True
_METAVARS = {"str": "TEXT", "int": "N", "float": "NUMBER", "bool": "true|false", "list": "LIST"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; every other --field is one of the config's."""
    parser.usage = "pods train --config FILE [--dry-run] [--any_field value ...]"
    parser.epilog = _help_of_fields()
    parser.add_argument(
        "--config", required=True, help="a YAML file, or the name of a shipped config"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and stop")


def run(args: argparse.Namespace) -> int:
    """Preview, train, and tell what came of it."""
    from podsrl.cli.needs import needed

    with needed("trl"):
        from podslab.training.config_file import read_config
        from podslab.training.preflight import check_output, check_run

        config = read_config(args.config)
        values = check_run(config, args.fields)
        if not args.dry_run:
            check_output(values)

        from accelerate import PartialState

        from podslab.cli import progress
        from podslab.cli.print_result import print_result
        from podslab.training import run as experiment
        from podslab.training.preview import Preview
        from podslab.training.spec import parse

    # a dry run must not need the GPUs that it is about
    here = ["--use_cpu", "true"] if args.dry_run else []
    spec = parse(config, [*args.fields, *here])
    if args.dry_run:
        arguments = ["--config", args.config, *args.fields]
        print(Preview.of(spec).describe(spec, arguments, on_cpu=values["use_cpu"]))
        check_output(values)  # what a start would refuse
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


@cache
def _help_of_fields() -> str:
    """The fields of a config that are podsrl's own, in groups."""
    from podslab.training.fields import own_fields

    shown = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    for title, owner in (
        ("fields of the run (keys of the YAML file, or flags, which win)", "RunArguments"),
        ("podsrl's own fields of the training (PODSConfig)", "PODSConfig"),
    ):
        group = shown.add_argument_group(title)
        for field in own_fields(owner):
            default = "" if field.default is None else f" ({field.default})"
            group.add_argument(
                f"--{field.name}",
                metavar=next((_METAVARS[kind] for kind in field.kinds if kind in _METAVARS), "N"),
                help=(field.help + default).replace("%", "%%"),
            )
    return (
        shown.format_help()
        + "\nand every field of TRL's GRPOConfig and ModelConfig, such as --learning_rate:\n"
        "  https://huggingface.co/docs/trl/grpo_trainer#trl.GRPOConfig"
    )
