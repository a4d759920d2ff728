"""`pods train`: one run from a YAML config and flags."""

import argparse
from dataclasses import fields
from importlib import metadata
from pathlib import Path

from podsrl.errors import MissingDependencyError, needed

SUMMARY = "train by the settings in a YAML file"
TAKES_FIELDS = True


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; every other --field is one of the config's."""
    parser.usage = "pods train --config FILE [--dry-run] [--any_field value ...]"
    parser.epilog = _help_of_fields()
    config = "a YAML file, or the name of a shipped config"
    parser.add_argument("--config", required=True, help=config)
    model = "train this model in place of the config's, such as tiny, smollm2 or a folder"
    parser.add_argument("--model", help=model)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")


def run(args: argparse.Namespace) -> int:
    """Preview, train, and tell what came of it."""
    from podslab.training.config_file import read_config, refuse_comparison

    config = read_config(args.config)
    refuse_comparison(config, args.config)
    if args.model:
        config["model_name_or_path"] = args.model

    with needed("trl"):
        from accelerate import PartialState

        from podslab.cli import run_output
        from podslab.training import run as training
        from podslab.training.output_folder import refuse_own_config, refuse_taken
        from podslab.training.preflight import checked_spec, notes
        from podslab.training.preview import Preview

    # a dry run must not need the GPUs that it is about
    here = ["--use_cpu", "true"] if args.dry_run else []
    try:
        spec = checked_spec(config, [*args.fields, *here])
    except metadata.PackageNotFoundError as error:  # such as of deepspeed
        raise MissingDependencyError(str(error)) from error

    folder = Path(str(spec.training.output_dir))
    refuse_own_config(args.config, folder, spec.run.resume)
    if args.dry_run:
        preview = Preview.of(spec)
        model = ["--model", args.model] if args.model else []
        words = ["--config", args.config, *model, *args.fields]
        print(preview.describe(spec))
        print(f"launch      {preview.launch(spec, words)}")
        for note in notes(spec):
            print(f"note        {note}")
        refuse_taken(folder, spec.run.resume)  # what a start would refuse
        return 0

    processes = PartialState()
    refuse_taken(folder, spec.run.resume)
    data = training.load_data(spec)
    if processes.is_main_process:
        print(Preview.of(spec, len(data.train)).describe(spec), flush=True)

    with run_output.TrainingBar() as training_bar:
        finished = training.train(spec, data, [training_bar], run_output.bar)
    if processes.is_main_process:
        run_output.print_run(finished)
    processes.destroy_process_group()
    return 0


def _help_of_fields() -> str:
    """The fields of a config that are the laboratory's own, and where the others are listed."""
    from podslab.training.run_arguments import RunArguments

    shown = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    group = shown.add_argument_group(
        "fields of the run, as keys of the YAML file or as flags; a flag wins"
    )
    for field in fields(RunArguments):
        default = "" if field.default is None else f" ({field.default})"
        meaning = (field.metadata["help"] + default).replace("%", "%%")
        group.add_argument(f"--{field.name}", metavar="VALUE", help=meaning)
    return (
        shown.format_help()
        + "\nand every field of podsrl.trl.PODSConfig and TRL's ModelConfig, such as\n"
        "--num_rollouts, --downsampling_rule, --learning_rate and --model_name_or_path:\n"
        "  https://huggingface.co/docs/trl/grpo_trainer#trl.GRPOConfig"
    )
