"""A reward model scores n rollouts of each prompt in passes of as many rows as TRL gives it."""

from typing import Any

import pytest

pytest.importorskip("trl")

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification
from trl import GRPOTrainer

from podsrl.trl.reward_models import InBatches, in_batches
from support.trl_runs import digits, equal, logged, weights


@pytest.fixture
def reward_model(tiny_model):
    """A tiny classifier with one label, whose scores differ by what it reads."""

    def make(folder: str = "judge") -> Any:
        torch.manual_seed(3)
        config = AutoConfig.from_pretrained(tiny_model, num_labels=1, pad_token_id=0)
        model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
        model.score.weight.data.mul_(50)
        model.config._name_or_path = str(tiny_model)  # whose tokenizer TRL takes
        return model.eval()

    return make


def passes_of(model: Any) -> list[int]:
    """The rows of every forward pass of a model from now on, as they come."""
    rows: list[int] = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    return rows


def train(make_trainer: Any, n: int | None, model: Any, **fields: Any) -> Any:
    options = {"max_steps": 1, "max_completion_length": 8, **fields}
    trainer = make_trainer(n, f"of-{n}", reward_funcs=[model, digits], **options)
    trainer.train()
    return trainer


@pytest.mark.parametrize(
    ("fields", "most", "passes"),
    [
        ({"per_device_train_batch_size": 8}, 8, 4),  # 2 prompts x 16 rollouts
        ({"per_device_train_batch_size": 4}, 4, 4),  # 1 prompt x 16
        ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}, 8, 4),
        ({"per_device_train_batch_size": 8, "num_generations": 2}, 8, 8),  # 4 prompts x 16
    ],
)
def test_a_pass_has_as_many_rows_as_trls(fields, most, passes, make_trainer, reward_model):
    fields = {**fields, "per_device_eval_batch_size": 1}
    model = reward_model()
    rows = passes_of(model)
    train(make_trainer, None, model, **fields)
    assert rows == [most]

    rows.clear()
    train(make_trainer, 16, model, **fields)
    assert rows == [most] * passes


def test_n_equal_to_m_is_trls_bit_for_bit(make_trainer, reward_model):
    theirs = train(make_trainer, None, reward_model(), max_steps=2)
    ours = train(make_trainer, 4, reward_model(), max_steps=2)
    assert equal(weights(theirs), weights(ours))
    for of_trl, of_pods in zip(logged(theirs), logged(ours), strict=True):
        assert of_trl["reward"] == of_pods["reward"]


@pytest.mark.parametrize("rows", [1, 3, 4, 7])
@pytest.mark.parametrize("side", ["left", "right"])
def test_scores_are_those_of_one_pass(rows, side, reward_model, make_trainer):
    model = reward_model()
    tokenizer = make_trainer(None).processing_class
    texts = ["1 + 1 = " + "2" * length for length in (1, 9, 3, 14, 2, 5, 7)]
    inputs = tokenizer(text=texts, return_tensors="pt", padding=True, padding_side=side)
    model.config.pad_token_id = tokenizer.pad_token_id
    with torch.inference_mode():
        at_once = model(**inputs).logits
        counted = passes_of(model)
        split = InBatches(model, rows)(**inputs).logits
    assert counted == [min(rows, 7 - first) for first in range(0, 7, rows)]
    assert at_once.std() > 0.01
    torch.testing.assert_close(split, at_once, rtol=1e-5, atol=1e-5)


def test_rewards_of_a_generation_are_those_of_one_pass(make_trainer, reward_model, monkeypatch):
    """Through TRL's own method, on the same completions."""
    trainer = train(make_trainer, 16, reward_model(), per_device_eval_batch_size=1)
    rewards = []
    row = trainer.train_dataset[0]
    completions = [[{"role": "assistant", "content": "7" * (1 + i)}] for i in range(32)]
    for rows in (8, 1000):
        trainer.reward_funcs[0].rows = rows
        given = ([row] * 32, [row["prompt"]] * 32, completions, [[1]] * 32)
        rewards.append(GRPOTrainer._calculate_rewards(trainer, *given)[:, 0])
    assert rewards[0].std() > 0.01
    torch.testing.assert_close(*rewards, rtol=1e-5, atol=1e-5)


def test_what_is_asked_of_the_model_is_answered_by_it(reward_model):
    model = reward_model()
    wrapped = InBatches(model, 4)
    assert wrapped.config is model.config
    assert [id(p) for p in wrapped.parameters()] == [id(p) for p in model.parameters()]
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        wrapped.nothing_of_this_name  # noqa: B018


def test_a_function_stays_a_function_and_an_evaluation_may_have_larger_passes(
    make_trainer, reward_model
):
    trainer = make_trainer(16, per_device_eval_batch_size=64)
    assert in_batches(digits, trainer.args) is digits
    assert in_batches(reward_model(), trainer.args).rows == 64
