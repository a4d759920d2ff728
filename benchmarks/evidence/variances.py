"""What the gradients of prompts share and what they don't: measured at fixed weights.

For each prompt the real TRL loss of two halves of its kept rows gives two independent estimates of
(mean score of right rollouts - mean score of wrong ones). `fit_variances` compares them.

    python -m benchmarks.evidence.variances                       # of the embedded model: 2 minutes
    python -m benchmarks.evidence.variances --config mine.yaml --out mine.json
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

from podslab.training.config_file import read_config
from podslab.training.run import build_trainer, load_data
from podslab.training.spec import parse
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import write_json

RESULT = Path("results/variances.json")
#: Rows of each prompt, kept of four times as many and split into two halves.
KEPT = 16
GENERATED = 4 * KEPT
#: Weights that are compared at most, picked at random: all of a large model don't fit in memory.
WEIGHTS = 1_000_000
#: The least number of right rows and of wrong rows that can be split into two halves.
_LEAST_OF_EACH = 2
_RESAMPLES = 2000


def main() -> None:
    """Measure, fit, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default="evidence", help="a YAML file or a shipped config")
    parser.add_argument("--prompts", type=int, default=96, help="with contrast (96)")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()

    values = {
        "config": args.config,
        "generated": GENERATED,
        "kept": KEPT,
        **measured(read_config(args.config), args.prompts),
    }
    print(json.dumps(values))
    write_json(args.out, values)


def measured(config: Mapping[str, Any], prompts: int) -> dict[str, Any]:
    """The variances at the weights that the config names, and the pass rates."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = prompt_trainer(config, folder)
        gradients_P_2_D, rows_P_2_2, right = measure(trainer, prompts)
    return {**fit_variances(gradients_P_2_D, rows_P_2_2), "right_of_each_prompt": right}


def prompt_trainer(config: Mapping[str, Any], folder: str) -> Any:
    """The trainer of a config, for one prompt per step; the gradient of a row keeps its scale."""
    fixed = {
        "num_generations": KEPT,
        "num_rollouts": GENERATED,
        "per_device_train_batch_size": KEPT,
        "gradient_accumulation_steps": 1,
        "evaluation_problems": 0,
        "output_dir": folder,
        "rollout_log": "false",
        "loss_type": "grpo",
    }
    flags: list[str] = []
    for name, value in fixed.items():
        flags += [f"--{name}", str(value)]

    spec = parse(dict(config), flags)
    trainer = build_trainer(spec, load_data(spec), lambda what: iter)
    trainer.current_gradient_accumulation_steps = 1  # TRL sets it when it begins to train
    trainer.model.train()
    return trainer


def measure(
    trainer: Any, prompts: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], list[int]]:
    """The gradients of so many prompts with two right and two wrong kept rows.

    Prompts with fewer have no halves that could be compared.

    Returns:
        The gradients and the rows that `fit_variances` takes, and how many of the rollouts
        generated were right, also of prompts without contrast.

    Raises:
        InvalidInputError: the dataset has not so many.
    """
    chosen = _chosen_weights(trainer)
    gradients = []
    rows = []
    right_of_each_prompt = []
    for row in trainer.train_dataset:
        output = trainer._generate_and_score_completions([row] * KEPT)
        share_right = trainer._metrics["train"]["reward"][-1]  # of all rollouts, each 0 or 1
        right_of_each_prompt.append(round(share_right * GENERATED))

        is_right_M = output["advantages"] > 0
        number_right = int(is_right_M.sum())
        if min(number_right, KEPT - number_right) < _LEAST_OF_EACH:
            continue

        # Every second row, wrong ones first: both halves get as many of each kind, or one more.
        order = torch.argsort(is_right_M.int(), stable=True)
        halves = [order[0::2], order[1::2]]

        gradients_2_D = []
        rows_2_2 = []
        for half in halves:
            gradients_2_D.append(half_gradient(trainer, output, half, is_right_M)[chosen])
            right_in_half = int(is_right_M[half].sum())
            rows_2_2.append([right_in_half, len(half) - right_in_half])
        gradients.append(gradients_2_D)
        rows.append(rows_2_2)

        if len(gradients) == prompts:
            return np.array(gradients), np.array(rows), right_of_each_prompt

    raise InvalidInputError(
        f"{len(gradients)} of {len(right_of_each_prompt)} prompts have enough contrast, and"
        f" {prompts} were asked for; ask for fewer, or give a larger dataset"
    )


def _chosen_weights(trainer: Any) -> Any:
    """The places of the weights that are compared: all, or `WEIGHTS` of them."""
    number = sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
    if number <= WEIGHTS:
        return slice(None)
    return np.random.default_rng(0).choice(number, WEIGHTS, replace=False)


def half_gradient(
    trainer: Any, output: Mapping[str, Any], half: torch.Tensor, is_right: torch.Tensor
) -> npt.NDArray[np.float32]:
    """The gradient of TRL's own loss, with advantages that make it a difference of means.

    Args:
        trainer: Of the prompt, as `prompt_trainer` builds it.
        output: What the trainer generated and scored.
        half: The places of the rows of this half.
        is_right: For each row of the output, whether its answer is right.

    Returns:
        The mean score of the half's wrong rows minus that of its right ones, by weight.
    """
    is_right_in_half = is_right[half]
    number_right = int(is_right_in_half.sum())
    number_wrong = len(half) - number_right

    # The loss divides by the number of rows, so each mean is made of rows that count more.
    of_right = len(half) / number_right
    of_wrong = -len(half) / number_wrong
    advantages = torch.where(is_right_in_half, of_right, of_wrong)

    inputs: dict[str, Any] = {}
    for name, value in output.items():
        has_rows = torch.is_tensor(value) and value.dim() > 0
        inputs[name] = value[half] if has_rows else value
    inputs["advantages"] = advantages

    trainer.model.zero_grad()
    trainer.compute_loss(trainer.model, inputs).backward()
    parts = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
    gradient: npt.NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
    return gradient


def fit_variances(
    gradients_P_2_D: npt.NDArray[np.float32],
    rows_P_2_2: npt.NDArray[np.int64],
    resamples: int = _RESAMPLES,
) -> dict[str, Any]:
    r"""The variances, from gradients of two halves of the rows of each prompt at fixed weights.

    Products of halves of different prompts have mean :math:`|g|^2`, those of the two halves of one
    prompt :math:`(1 + \tau^2) |g|^2`, and a half's square has :math:`\sigma^2 |g|^2 (1/a + 1/b)`
    more, with a right and b wrong rows.

    Args:
        gradients_P_2_D: The mean score of right rollouts minus that of wrong ones, by half.
        rows_P_2_2: The right and the wrong rows of each half.
        resamples: The number of resamples of the prompts, for the intervals.

    Returns:
        Both variances, each with the ends of its 95 % interval over prompts; the number of
        prompts; and the mean cosines of two halves of one prompt, and of two prompts.

    Raises:
        InvalidInputError: fewer than two prompts, or prompts that share no direction.
    """
    prompts = len(gradients_P_2_D)
    if prompts < 2:
        raise InvalidInputError(f"{prompts} prompts can't be compared; at least 2 are needed")

    # The product of each half with each half, by prompt and half.
    halves = gradients_P_2_D.reshape(2 * prompts, -1)
    products_P_2_P_2 = (halves @ halves.T).astype(float).reshape(prompts, 2, prompts, 2)
    own = np.arange(prompts)
    across_P_P = products_P_2_P_2.mean(axis=(1, 3))
    together_P = products_P_2_P_2[own, 0, own, 1]
    square_P = (products_P_2_P_2[own, 0, own, 0] + products_P_2_P_2[own, 1, own, 1]) / 2
    inverse_P = (1 / rows_P_2_2).sum(axis=2).mean(axis=1)  # 1/a + 1/b

    def fit(drawn: npt.NDArray[np.int64]) -> tuple[float, float, float]:
        """|g|^2 and both variances, of the prompts at these places."""
        times_P = np.bincount(drawn, minlength=prompts).astype(float)
        pairs_P_P = np.outer(times_P, times_P)
        pairs_P_P[own, own] = 0.0  # a prompt that was drawn twice is not two prompts
        shared = float((pairs_P_P * across_P_P).sum() / pairs_P_P.sum())

        same = float(together_P[drawn].mean())
        noise = float((square_P - together_P)[drawn].mean() / inverse_P[drawn].mean())
        return shared, same / shared - 1, noise / shared

    shared, between, within = fit(own)
    if not shared > 0:
        raise InvalidInputError("the gradients of the prompts share no direction: measure more")

    # The intervals. Where a resample shares no direction, its variances mean nothing.
    random = np.random.default_rng(0)
    fits = np.array([fit(random.integers(prompts, size=prompts)) for _ in range(resamples)])
    variances_R_2 = fits[fits[:, 0] > 0, 1:]
    ends_2_2 = np.quantile(variances_R_2, (0.025, 0.975), axis=0)

    # The cosines.
    lengths_P_2 = np.linalg.norm(halves, axis=1).reshape(prompts, 2)
    cosines_P_2_P_2 = products_P_2_P_2 / (lengths_P_2[:, :, None, None] * lengths_P_2)
    is_other_P_P = ~np.eye(prompts, dtype=bool)
    return {
        "prompts": prompts,
        "between": [between, *ends_2_2[:, 0].tolist()],
        "within": [within, *ends_2_2[:, 1].tolist()],
        "cosine_of_halves": float(cosines_P_2_P_2[own, 0, own, 1].mean()),
        "cosine_of_prompts": float(cosines_P_2_P_2.mean(axis=(1, 3))[is_other_P_P].mean()),
    }


if __name__ == "__main__":
    main()
