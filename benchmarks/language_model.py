"""What selection does on a pretrained model, step by step: SmolLM2-135M on questions for a number.

A right answer has exactly one number, the right one; few are right at first. Each arm trains all
parameters on 16 rows a step, in bfloat16 where the processor has it. Every rollout of a step is of
new prompts, so the share of right ones is the accuracy before that step.

    python -m benchmarks.language_model --out runs/language-model   # goes on where it was stopped
    python -m benchmarks.language_model --out runs/language-model --page   # JSON, page and figure
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from matplotlib.figure import Figure
from transformers import AutoModelForCausalLM, AutoTokenizer

from podslab.models import resolve
from podslab.report.drawing import INK, OKABE_ITO, render, style
from podslab.tasks.numbers import Numbers
from podslab.training.lab_trainer import LabTrainer, has_bfloat16
from podslab.training.run import with_prompts
from podsrl.rollout_log.files import write_json, write_whole
from podsrl.trl import PODSConfig

RESULTS = Path("results")
TASK = Numbers()
ACROSS: dict[str, Any] = {"num_generations": 1, "downsampling_rule": "max_contrast"}
GROUP: dict[str, Any] = {"num_rollouts": 8, "advantage_baseline": "group", **ACROSS}
#: Rows that were cut off at the limit are left out of the loss, and kept last.
ENDED: dict[str, Any] = {"mask_truncated_completions": True}
#: What differs between arms; all have 16 rows a step.
ARMS: dict[str, dict[str, Any]] = {
    "grpo-8": {"num_rollouts": 8, "num_generations": 8},
    "grpo-4": {"num_rollouts": 4, "num_generations": 4},
    "contrast-4": {"num_rollouts": 4, **ACROSS},
    "contrast-8-group": GROUP,
    "grpo-8-ended": {"num_rollouts": 8, "num_generations": 8, **ENDED},
    "contrast-8-group-ended": {**GROUP, **ENDED},
    "best-8-ended": {**GROUP, "downsampling_rule": "max_reward", **ENDED},
}
NAMES = {
    "grpo-8": "GRPO, 8 rows of each of 2 prompts",
    "grpo-4": "GRPO, 4 rows of each of 4 prompts",
    "contrast-4": "max_contrast, 4 rollouts of 16 prompts",
    "contrast-8-group": "max_contrast, 8 rollouts, baseline over all 8",
    "grpo-8-ended": "GRPO, 8 rows, those cut off left out",
    "contrast-8-group-ended": "max_contrast for rare right answers, 8 rollouts of 16 prompts",
    "best-8-ended": "the best of 8 rollouts of 16 prompts, those cut off left out",
}
LIMIT, STEPS, ROWS = 32, 14, 16
PROBED = (0, 6)  # steps after which the gradients of right and of wrong rows are measured


def dataset(seed: int) -> Dataset:
    """Questions in chat form."""
    return Dataset.from_list(with_prompts(TASK, Numbers(seed).load("train")))


def strict(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """1 for a text with exactly one number, the right one; else 0."""
    pairs = zip(completions, answer, strict=True)
    return [float(bool(TASK.grade(one[-1]["content"], {"answer": a}).answer)) for one, a in pairs]


class ProbedTrainer(LabTrainer):
    """A trainer that measures the gradients of right and of wrong rows before some steps."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.probes: list[dict[str, Any]] = []

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = super()._prepare_inputs(generation_batch)
        if self.model.training and self.state.global_step in PROBED:
            logged, self._metrics["train"] = self._metrics["train"], defaultdict(list)
            self.probes.append({"step": self.state.global_step, **self._gradients(inputs)})
            self._metrics["train"] = logged
        return inputs

    def _gradients(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Squared gradients of the update's own loss, of rows with either sign of advantage."""
        advantages = inputs["advantages"]
        found: dict[str, Any] = {}
        gradients: dict[str, torch.Tensor] = {}
        for name, rows in (("right", advantages > 0), ("wrong", advantages < 0)):
            self.model.zero_grad(set_to_none=True)
            part = {**inputs, "advantages": torch.where(rows, advantages, 0 * advantages)}
            self._compute_loss(self.model, part).backward()
            grads = [p.grad.flatten() for p in self.model.parameters() if p.grad is not None]
            gradients[name] = torch.cat(grads)
            found[f"rows_{name}"] = int(rows.sum())
            found[f"tokens_{name}"] = int(inputs["completion_mask"][rows].sum())
            found[f"squared_{name}"] = float(gradients[name].square().sum())
        found["cosine"] = float(
            torch.cosine_similarity(gradients["right"], gradients["wrong"], dim=0)
        )
        self.model.zero_grad(set_to_none=True)
        return found


def train(arm: str, rate: float, seed: int, steps: int, out: Path) -> None:
    """Train an arm, and write its file; nothing if that is there."""
    file = out / f"{arm}_{rate:g}_{seed}.json"
    if file.exists():
        return
    path, fields = resolve("smollm2"), ARMS[arm]
    trainer = ProbedTrainer(
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32),
        reward_funcs=strict,
        args=PODSConfig(
            output_dir=str(out / "runs" / file.stem),
            per_device_train_batch_size=ROWS,
            gradient_accumulation_steps=1,
            max_completion_length=LIMIT,
            max_steps=steps,
            learning_rate=rate,
            lr_scheduler_type="constant",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=has_bfloat16(),
            gradient_checkpointing=False,
            seed=seed,
            **fields,
        ),
        train_dataset=dataset(seed + 7),
        processing_class=AutoTokenizer.from_pretrained(path, padding_side="left"),
        clock="cpu",
    )
    trainer.train()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    write_json(file, summary(arm, rate, seed, log, trainer.probes))


def summary(
    arm: str, rate: float, seed: int, log: list[dict[str, Any]], probes: list[dict[str, Any]]
) -> dict[str, Any]:
    """What is published of a run: series by step, and the probes."""
    series = {
        "right": "rewards/strict/mean",
        "tokens": "completions/mean_length",
        "clipped": "completions/clipped_ratio",
        "entropy": "entropy",
        "filler_rows": "pods/zero_advantage_rows",
        "cpu_seconds_generate": "pods/seconds_generate",
        "cpu_seconds_update": "pods/seconds_update",
    }
    by_step = {ours: [round(e[name], 4) for e in log] for ours, name in series.items()}
    return {"arm": arm, "rate": rate, "seed": seed, **by_step, "gradients": probes}


#: What the figure shows, in its colours, by arm and rate.
SHOWN = {
    ("grpo-8", 3e-5): (INK, "-"),
    ("grpo-4", 3e-5): (INK, ":"),
    ("contrast-8-group-ended", 3e-5): (OKABE_ITO[2], "-"),
    ("contrast-8-group", 3e-5): (OKABE_ITO[5], "-"),
    ("contrast-4", 3e-5): (OKABE_ITO[4], "-"),
}
PANELS = {
    "right": "right rollouts, %",
    "tokens": "tokens of a rollout",
    "clipped": "cut off at 32 tokens, %",
}


def table(own: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs of an arm at a rate show: a run for each seed."""
    found: dict[str, Any] = {"name": NAMES[own[0]["arm"]], "rate": own[0]["rate"]}
    for series in ("right", "tokens", "clipped", "filler_rows"):
        found[f"last_{series}"] = [fmean(run[series][STEPS - 3 : STEPS]) for run in own]
    squares = [(p["squared_wrong"], p["squared_right"]) for run in own for p in run["gradients"]]
    shares = [wrong / (wrong + right) for wrong, right in squares if wrong + right]
    found["wrong_share"] = median(shares) if shares else None
    return found


def draw(arms: dict[tuple[str, float], list[dict[str, Any]]]) -> None:
    """A line for each arm and rate, the mean of its seeds by step."""
    with style():
        figure = Figure(figsize=(4.9 * len(PANELS), 4.2), layout="constrained")
        row = figure.subplots(1, len(PANELS))
        for axes, (series, label) in zip(row, PANELS.items(), strict=True):
            for key in (key for key in SHOWN if key in arms):
                values = np.mean([run[series][:STEPS] for run in arms[key]], axis=0)
                colour, dashes = SHOWN[key]
                scale = 1 if series == "tokens" else 100
                name = f"{NAMES[key[0]]}, {len(arms[key])} seeds"
                steps = range(1, STEPS + 1)
                axes.plot(steps, scale * values, color=colour, ls=dashes, label=name)
            axes.set(xlabel="step", ylabel=label, xlim=(1, STEPS), ylim=0)
        figure.legend(*row[0].get_legend_handles_labels(), fontsize=9, loc="outside upper left")
        write_whole(RESULTS / "language-model.png", render(figure, "png"))


def write_page(runs: list[dict[str, Any]]) -> None:
    """results/language-model.json and the figure, from the runs alone."""
    # of an arm and a seed the longest run; a shorter one has the gradients
    ordered = sorted(runs, key=lambda run: len(run["right"]))
    longest = {(run["arm"], run["rate"], run["seed"]): run for run in ordered}
    arms: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    for arm, rate, seed in sorted(longest, key=lambda key: (list(NAMES).index(key[0]), key[1:])):
        arms[arm, rate].append(longest[arm, rate, seed])
    tables = {f"{arm}-at-{rate:g}": table(own) for (arm, rate), own in arms.items()}
    write_json(RESULTS / "language-model.json", {"arms": tables, "runs": runs})
    draw(arms)


def main() -> None:
    """Train what is missing, or write the page's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a file for each run")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--rates", nargs="+", type=float, default=[1e-5, 3e-5])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--page", action="store_true", help="write results/language-model.*")
    args = parser.parse_args()
    if args.page:
        write_page([json.loads(file.read_text()) for file in sorted(args.out.rglob("*_*_*.json"))])
        return
    for rate in args.rates:
        for seed in args.seeds:
            for arm in args.arms:
                train(arm, rate, seed, args.steps, args.out)


if __name__ == "__main__":
    main()
