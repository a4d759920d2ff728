"""`pods demo`: see GRPO-PODS learn, on a CPU, in minutes."""

import argparse
from pathlib import Path

SUMMARY = "watch GRPO-PODS teach the embedded model, on a CPU, in minutes"
TAKES_FIELDS = True


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; every other --field is one of the config's."""
    parser.usage = "pods demo [--any_field value ...]"
    parser.epilog = "The settings are those of the shipped config 'arithmetic'."
    parser.add_argument("--output_dir", "--output-dir", default="runs/demo", help="(runs/demo)")


def run(args: argparse.Namespace) -> int:
    """Warm-start, evaluate, train, evaluate; tell what came of it and where to look."""
    from podsrl.cli.needs import needed

    with needed("trl"):
        from podslab.cli import progress
        from podslab.cli.print_run import print_run
        from podslab.report.load_runs import Choices, load_comparison
        from podslab.report.write_report import write_report
        from podslab.training import run as training
        from podslab.training.config_file import read_config
        from podslab.training.output_folder import refuse_taken
        from podslab.training.preflight import checked_spec
        from podslab.training.preview import Preview

    folder = _where(Path(args.output_dir))
    config = {**read_config("arithmetic"), "output_dir": str(folder)}
    spec = checked_spec(config, args.fields)
    refuse_taken(folder, resume=False)
    data = training.load_data(spec)
    row = data.held_out[0]
    print("A small model has learned to add, but makes many mistakes.")
    print("GRPO-PODS trains it to make fewer.")
    print(f"Its task, for example: {row['question']} = {row['answer']}\n")
    print(Preview.of(spec, len(data.train)).describe(spec), flush=True)
    with progress.TrainingBar() as training_bar:
        finished = training.train(spec, data, [training_bar], progress.bar)
    print_run(finished)
    report = write_report([load_comparison([folder], Choices())], folder, "PODS: the demo")
    print(f"curve       {folder / 'figures' / 'accuracy.png'}")
    print(f"everything  {report.page}  <- open it in a browser and look into the rollouts")
    return 0


def _where(folder: Path) -> Path:
    """The folder itself if it is new, else the next free name."""
    number, candidate = 1, folder
    while candidate.is_dir():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    if candidate != folder:
        print(f"{folder} holds another demo; this one goes to {candidate}")
    return candidate
