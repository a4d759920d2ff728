"""What the gradients of prompts share and what they don't: measured at fixed weights.

For each prompt the real TRL loss of two halves of its kept rows gives two independent estimates of
(mean score of right rollouts - mean score of wrong ones). `fit_variances` compares them.

    python -m benchmarks.evidence.variances                       # of the embedded model: 2 minutes
    python -m benchmarks.evidence.variances --setting words-16 --out variances.json
    python -m benchmarks.evidence.variances --setting answers-hard --after 12 24 --out new.json
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import yaml

from benchmarks.evidence.rows_settings import SETTINGS, settings_of
from podslab.training.config_file import read_config
from podslab.training.run import build_trainer, load_data, train
from podslab.training.spec import parse
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import write_json

RESULT = Path("results/variances.json")
#: Rows of each prompt, kept of four times as many and split into two halves.
ROWS = 16
#: Weights that are compared at most, picked at random: all of a large model don't fit in memory.
WEIGHTS = 1_000_000
#: How the model is trained where it is measured later, too.
TRAINED: dict[str, Any] = {
    "per_device_train_batch_size": 16,
    "learning_rate": 3e-5,
    "save_strategy": "steps",
    "save_only_model": True,
    "evaluation_problems": 0,
}


def main() -> None:
    """Measure, fit, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default="evidence", help="a YAML file or a shipped config")
    parser.add_argument("--setting", choices=SETTINGS, help="changes it as in the rows evidence")
    parser.add_argument("--prompts", type=int, default=96, help="with contrast (96)")
    later = "measure after so many steps of `top_advantage`, too: multiples of the first"
    parser.add_argument("--after", type=int, nargs="*", default=[], help=later)
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    name = SETTINGS[args.setting].config if args.setting else args.config
    config = {**read_config(name), **(settings_of(args.setting) if args.setting else {})}
    values = {
        "config": name,
        "setting": args.setting,
        "generated": 4 * ROWS,
        "kept": ROWS,
        **measured(config, args.prompts),
    }
    with tempfile.TemporaryDirectory() as folder:
        if args.after:
            arm = yaml.safe_load(Path("benchmarks/methods/top_advantage.yaml").read_text())["arm"]
            given = {"max_steps": args.after[-1], "save_steps": args.after[0], "output_dir": folder}
            spec = parse({**config, **TRAINED, **arm, **given}, [])
            train(spec, load_data(spec))
        for step in args.after:
            model = {"model_name_or_path": f"{folder}/checkpoint-{step}"}
            values[f"after_{step}"] = measured({**config, **model}, args.prompts)
    print(json.dumps(values))
    write_json(args.out, values)


def measured(config: Mapping[str, Any], prompts: int) -> dict[str, Any]:
    """The variances at the weights that the config names, and the pass rates."""
    with tempfile.TemporaryDirectory() as folder:
        gradients_P_2_D, rows_P_2_2, right = measure(prompt_trainer(config, folder), prompts)
    return {**fit_variances(gradients_P_2_D, rows_P_2_2), "right_of_each_prompt": right}


def prompt_trainer(config: Mapping[str, Any], folder: str) -> Any:
    """The trainer of a config, for one prompt per step; the gradient of a row keeps its scale."""
    fixed = {
        "num_generations": ROWS,
        "num_rollouts": 4 * ROWS,
        "per_device_train_batch_size": ROWS,
        "gradient_accumulation_steps": 1,
        "evaluation_problems": 0,
        "output_dir": folder,
        "rollout_log": "false",
        "loss_type": "grpo",
    }
    flags = [word for name, value in fixed.items() for word in (f"--{name}", str(value))]
    spec = parse(dict(config), flags)
    trainer = build_trainer(spec, load_data(spec), lambda what: iter)
    trainer.current_gradient_accumulation_steps = 1  # TRL sets it when it begins to train
    trainer.model.train()
    return trainer


def measure(
    trainer: Any, prompts: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], list[int]]:
    """Of so many prompts with two right and two wrong kept rows; the others have no halves.

    Returns:
        The gradients and the rows that `fit_variances` takes, and how many of the rollouts
        generated were right, also of prompts without contrast.

    Raises:
        InvalidInputError: the dataset has not so many.
    """
    weights = sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
    random = np.random.default_rng(0)
    chosen = random.choice(weights, WEIGHTS, replace=False) if weights > WEIGHTS else slice(None)
    gradients, rows, all_right = [], [], []
    for row in trainer.train_dataset:
        output = trainer._generate_and_score_completions([row] * ROWS)
        share = trainer._metrics["train"]["reward"][-1]  # of all rollouts; rewards are 0 or 1
        all_right.append(round(share * 4 * ROWS))
        right = output["advantages"] > 0
        if min(int(right.sum()), int((~right).sum())) < 2:
            continue
        order = torch.argsort(right.int(), stable=True)
        halves = [order[half::2] for half in (0, 1)]
        gradients.append([half_gradient(trainer, output, half, right)[chosen] for half in halves])
        rows.append([[int(right[half].sum()), int((~right[half]).sum())] for half in halves])
        if len(gradients) == prompts:
            return np.array(gradients), np.array(rows), all_right
    raise InvalidInputError(f"{len(gradients)} of {len(all_right)} prompts have enough contrast")


def half_gradient(trainer: Any, output: dict[str, Any], half: Any, right: Any) -> Any:
    """Of TRL's own loss, with advantages that make it minus (mean of right - mean of wrong)."""
    right_rows = int(right[half].sum())
    wrong_rows = len(half) - right_rows
    advantages = torch.where(right[half], len(half) / right_rows, -len(half) / wrong_rows)
    inputs = {
        name: value[half] if torch.is_tensor(value) and value.dim() else value
        for name, value in output.items()
    }
    trainer.model.zero_grad()
    trainer.compute_loss(trainer.model, {**inputs, "advantages": advantages}).backward()
    parts = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
    return torch.cat(parts).float().cpu().numpy()


def fit_variances(
    gradients_P_2_D: npt.NDArray[np.float32],
    rows_P_2_2: npt.NDArray[np.int64],
    resamples: int = 2000,
) -> dict[str, Any]:
    r"""The variances, from gradients of two halves of the rows of each prompt at fixed weights.

    Products of halves of different prompts have mean :math:`|g|^2`, those of the two halves of one
    prompt :math:`(1 + \tau^2) |g|^2`, and a half's square has :math:`\sigma^2 |g|^2 (1/a + 1/b)`
    more, with a right and b wrong rows.

    Args:
        gradients_P_2_D: mean score of right rollouts minus that of wrong ones, by half.
        rows_P_2_2: right and wrong rows of each half.
        resamples: of the prompts, for the intervals.

    Returns:
        Both variances, each with the ends of its 95 % interval over prompts; the number of
        prompts; and the mean cosines of two halves of one prompt, and of two prompts.

    Raises:
        InvalidInputError: fewer than two prompts, or prompts that share no direction.
    """
    prompts = len(gradients_P_2_D)
    if prompts < 2:
        raise InvalidInputError(f"{prompts} prompts can't be compared; at least 2 are needed")
    halves = gradients_P_2_D.reshape(2 * prompts, -1)
    products = (halves @ halves.T).astype(float).reshape(prompts, 2, prompts, 2)
    own = np.arange(prompts)
    across_P_P = products.mean(axis=(1, 3))
    together_P = products[own, 0, own, 1]
    square_P = (products[own, 0, own, 0] + products[own, 1, own, 1]) / 2
    inverse_P = (1 / rows_P_2_2).sum(axis=2).mean(axis=1)

    def fit(which: npt.NDArray[np.int64]) -> tuple[float, float, float]:
        times = np.bincount(which, minlength=prompts).astype(float)
        pairs = np.outer(times, times)
        pairs[own, own] = 0.0  # a prompt that was drawn twice is not two prompts
        shared = float((pairs * across_P_P).sum() / pairs.sum())
        same, noise = together_P[which].mean(), (square_P - together_P)[which].mean()
        noise /= inverse_P[which].mean()
        return shared, float(same / shared - 1), float(noise / shared)

    shared, between, within = fit(own)
    if not shared > 0:
        raise InvalidInputError("the gradients of the prompts share no direction: measure more")
    random = np.random.default_rng(0)
    drawn = np.array([fit(random.integers(prompts, size=prompts)) for _ in range(resamples)])
    low_high_2_2 = np.quantile(drawn[drawn[:, 0] > 0, 1:], (0.025, 0.975), axis=0)
    lengths = np.linalg.norm(halves, axis=1).reshape(prompts, 2)
    cosines = products / (lengths[:, :, None, None] * lengths)
    others = ~np.eye(prompts, dtype=bool)
    return {
        "prompts": prompts,
        "between": [between, *low_high_2_2[:, 0].tolist()],
        "within": [within, *low_high_2_2[:, 1].tolist()],
        "cosine_of_halves": float(cosines[own, 0, own, 1].mean()),
        "cosine_of_prompts": float(cosines.mean(axis=(1, 3))[others].mean()),
    }


if __name__ == "__main__":
    main()
