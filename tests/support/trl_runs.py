"""A PODSTrainer on the tiny model and sums of two columns, ready in a second."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from podslab.tasks import get_task
from podslab.training.run import with_prompts
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import PODSConfig, PODSTrainer, checkpoint

COMMON: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "num_generations": 4,
    "max_completion_length": 32,
    "max_steps": 2,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
    "beta": 0.0,
    "loss_type": "grpo",
    "seed": 7,
}


@pytest.fixture(scope="session")
def arithmetic() -> Any:
    return get_task("arithmetic", min_columns=2, max_columns=2, train_size=64, test_size=16)


@pytest.fixture(scope="session")
def dataset(arithmetic: Any) -> Dataset:
    return Dataset.from_list(with_prompts(arithmetic, arithmetic.load("train")))


def count_passed_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every pass of a model that a GRPOTrainer makes from now on, as they come."""
    rows: list[int] = []
    original = GRPOTrainer._get_per_token_logps_and_entropies

    def counted(self: Any, model: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
        rows.append(len(input_ids))
        return original(self, model, input_ids, *args, **kwargs)

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", counted)
    return rows


def digits(completions: list[Any], **kwargs: Any) -> list[float]:
    """A cheap reward with much spread: the share of odd digits."""
    shares = []
    for completion in completions:
        text = completion[-1]["content"]
        shares.append(sum(letter in "13579" for letter in text) / (1 + len(text)))
    return shares


@pytest.fixture
def make_trainer(tiny_model: Path, dataset: Dataset, tmp_path: Path) -> Callable[..., Any]:
    """make_trainer(n, name, reward_funcs=..., data=..., ...): a fresh model and trainer.

    n = None makes TRL's own GRPOTrainer. A `mixin` is a class whose methods stand in front of it.
    """

    def make(
        n: int | str | None,
        name: str = "run",
        reward_funcs: Any = digits,
        data: Any = dataset,
        mixin: type | None = None,
        **fields: Any,
    ) -> Any:
        names = ("peft_config", "eval_dataset", "callbacks", "reward_processing_classes")
        of_trainer = {k: fields.pop(k) for k in names if k in fields}
        options = {**COMMON, **fields, "output_dir": str(tmp_path / name)}
        args = GRPOConfig(**options) if n is None else PODSConfig(num_rollouts=n, **options)
        model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
        kind: Any = GRPOTrainer if n is None else PODSTrainer
        if mixin is not None:
            kind = type(mixin.__name__, (mixin, kind), {})
        return kind(
            model=model,
            reward_funcs=reward_funcs,
            args=args,
            train_dataset=data,
            processing_class=AutoTokenizer.from_pretrained(tiny_model, padding_side="left"),
            **of_trainer,
        )

    return make


def weights(trainer: Any) -> dict[str, torch.Tensor]:
    """A copy of the trained model's weights."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    """Bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def straight_and_resumed(make_trainer: Callable[..., Any], n: int, **fields: Any) -> Any:
    """A trainer that trained five steps, and one that went on from the first one's third."""
    fields |= {"max_steps": 5, "save_strategy": "steps", "save_steps": 3}
    straight = make_trainer(n, **fields)
    straight.train()
    folder = Path(straight.args.output_dir)
    shutil.rmtree(folder / "checkpoint-5")  # as if it had been killed before
    second = make_trainer(n, **fields)
    second.train(resume_from_checkpoint=str(checkpoint.last_complete(folder)))
    assert second.state.global_step == 5
    return straight, second


def logged(trainer: Any) -> list[dict[str, Any]]:
    """What was logged of each optimiser step."""
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def table_of(trainer: Any, step: int = 1) -> Any:
    """The rollouts that a step recorded, as a data frame."""
    return RunFolder(Path(trainer.args.output_dir)).rollouts(step).to_pandas()


def trained_rows(trainer: Any) -> list[tuple[tuple[int, ...], float]]:
    """Train; the completions that the update saw, each with its sampling log-prob."""
    rows: list[tuple[tuple[int, ...], float]] = []
    generate = trainer._generate_and_score_completions

    def remember(inputs: list[Any]) -> dict[str, Any]:
        output: dict[str, Any] = generate(inputs)
        columns = (output[k] for k in ("completion_ids", "completion_mask"))
        for ids, mask, logps in zip(*columns, output["sampling_per_token_logps"], strict=True):
            kept = mask.bool()
            assert len(set(logps[kept].tolist())) == 1
            rows.append((tuple(ids[kept].tolist()), logps[kept][0].item()))
        return output

    trainer._generate_and_score_completions = remember
    trainer.train()
    return rows
