"""README's script to its end with SmolLM2-135M on a CPU, by GRPO and by PODS.

    python -m benchmarks.first_run train pods --rate 1e-5              # the whole: an hour
    python -m benchmarks.first_run train pods --rate 1e-5 --steps 24   # to choose a rate by

The script itself is run; only its model and some settings are replaced. Each step is one line of
results/first-run/runs/NAME.jsonl as soon as it has ended. The protocol is in that folder's README.
"""

import argparse
import json
import runpy
from typing import Any

from benchmarks.folders import RESULTS, ROOT

SCRIPT = ROOT / "examples" / "first_run.py"
FOLDER = RESULTS / "first-run"
RUNS = FOLDER / "runs"
STEPS = 200  # as the script has it
SEED = 42

#: GRPO has every help of ours that does not choose rows.
ARMS: dict[str, dict[str, Any]] = {
    "pods": {},
    "grpo": {"method": "grpo", "skip_zero_advantage": True, "read_prompts_once": True},
}
#: Points of the curve are means over so many steps: 80 questions that were not seen before.
WINDOW = 20


def main() -> None:
    """Train once, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="one run of the script")
    training.add_argument("arm", choices=list(ARMS))
    training.add_argument("--rate", type=float, required=True)
    training.add_argument("--steps", type=int, default=STEPS)
    training.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()

    train(args.arm, args.rate, args.steps, args.seed)


def train(arm: str, rate: float, steps: int, seed: int) -> None:
    """Run the script with another model, and write down each step.

    Raises:
        FileExistsError: There is a run of that name; no run is overwritten.
    """
    from transformers import TrainerCallback

    import podsrl.trl
    from podslab.models.smollm2 import get_model

    path = RUNS / f"{arm}-{rate:g}-{steps}-{seed}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(exist_ok=False)
    settings = {
        **ARMS[arm],
        "learning_rate": rate,
        "max_steps": steps,
        "seed": seed,
        "use_cpu": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "rollout_log": False,
    }

    class WriteDown(TrainerCallback):
        """A line for each step, written at once."""

        def on_log(self, args, state, control, logs=None, **_):
            line = json.dumps({"step": state.global_step, **(logs or {})})
            with open(path, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    config = podsrl.trl.PODSConfig

    class Trainer(podsrl.trl.PODSTrainer):
        """The script's trainer, with a model that needs no network."""

        def __init__(self, model, *args, **kwargs):
            super().__init__(str(get_model()), *args, **kwargs)
            self.add_callback(WriteDown())

    def with_settings(output_dir, **theirs):
        return config(output_dir, **{**theirs, **settings})

    podsrl.trl.PODSConfig = with_settings
    podsrl.trl.PODSTrainer = Trainer
    runpy.run_path(str(SCRIPT), run_name="__main__")


if __name__ == "__main__":
    main()
