"""`pods demo`: see GRPO-PODS learn, on a CPU, in minutes."""

import argparse
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podslab.training.run import Data
    from podslab.training.spec import Spec

SUMMARY = "watch GRPO-PODS teach a small model, on a CPU, in minutes"
TAKES_FIELDS = True

#: The shipped config of each model, and what there is to say of it.
MODELS = {
    "tiny": ("arithmetic", "A small model can add, but slips: training makes it surer."),
    "smollm2": ("numbers", "A pretrained model talks where a number alone is asked for."),
}
SHOWN = 10  # problems of which the answers before and after are printed


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; every other --field is one of the config's."""
    parser.usage = "pods demo [--model tiny|smollm2] [--any_field value ...]"
    parser.epilog = "The settings are those of the shipped config 'arithmetic' or 'numbers'."
    which = (
        "tiny, made here (default), or smollm2: 3 to 6 minutes, needs two packages, which it names"
    )
    parser.add_argument("--model", choices=MODELS, default="tiny", help=which)
    parser.add_argument("--output_dir", "--output-dir", default="runs/demo", help="(runs/demo)")


def run(args: argparse.Namespace) -> int:
    """Warm-start, evaluate, train, evaluate; tell what came of it and where to look."""
    from podsrl.errors import InvalidInputError, needed

    with needed("trl"):
        from podslab.cli import run_output
        from podslab.report.load_runs import Choices, load_comparison
        from podslab.report.write_report import write_report
        from podslab.training import run as training
        from podslab.training.config_file import read_config
        from podslab.training.lab_trainer import has_bfloat16
        from podslab.training.output_folder import refuse_taken
        from podslab.training.preflight import checked_spec
        from podslab.training.preview import Preview

    folder = _where(Path(args.output_dir))
    name, said = MODELS[args.model]
    config = {**read_config(name), "output_dir": str(folder)}
    if args.model == "smollm2":
        config["bf16"] = has_bfloat16()
    spec = checked_spec(config, args.fields)
    refuse_taken(folder, resume=False)
    data = training.load_data(spec)
    if not data.held_out:
        raise InvalidInputError("pods demo shows problems; evaluation_problems must be at least 1")
    row = data.held_out[0]
    print(f"{said}\nGRPO-PODS trains it to do better.")
    print(f"Its task, for example: {row['question']} = {row['answer']}\n")
    print(Preview.of(spec, len(data.train)).describe(spec), flush=True)
    with run_output.TrainingBar() as training_bar:
        finished = training.train(spec, data, [training_bar], run_output.bar)
    run_output.print_run(finished)
    if args.model == "smollm2" and finished.checkpoint:
        _before_and_after(spec, data, str(finished.checkpoint))
    report = write_report([load_comparison([folder], Choices())], folder, "PODS: the demo")
    print(f"curve       {folder / 'figures' / 'accuracy.png'}")
    print(f"everything  {report.page}  <- open it in a browser and look into the rollouts")
    return 0


def _before_and_after(spec: "Spec", data: "Data", checkpoint: str) -> None:
    """Print what the model before and after says to different held-out problems, greedily."""
    from podslab.evaluation.sampling import Sampling, complete
    from podslab.models.load import load_model

    greedy = Sampling(temperature=0, max_new_tokens=32)
    rows = [*{row["question"]: row for row in data.held_out}.values()][:SHOWN]
    before, after = (
        complete(*load_model(name), [data.task.prompt(row) for row in rows], greedy)
        for name in (str(spec.model.model_name_or_path), checkpoint)
    )
    print(f"\n{'problem':<58} {'answer':>6}  {'before':<40}  after")
    for row, *said in zip(rows, before, after, strict=True):
        old, new = (shorten(text, 40, placeholder=" ...") for text in said)
        print(f"{row['question']:<58} {row['answer']:>6}  {old:<40}  {new}")
    print()


def _where(folder: Path) -> Path:
    """The folder itself if it is new, else the next free name."""
    number, candidate = 1, folder
    while candidate.is_dir():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    if candidate != folder:
        print(f"{folder} holds another demo; this one goes to {candidate}")
    return candidate
