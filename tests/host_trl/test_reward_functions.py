"""Reward functions as users write them: several, async, returning None, logging, failing."""

import asyncio
import math
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from transformers import TrainerCallback

from podsrl.errors import RewardError
from podsrl.rollout_log.turns import text_of
from podsrl.trl.checks import checked
from support.trl_runs import equal, logged, table_of, weights


def odd(completions: list[Any], **kwargs: Any) -> list[float]:
    """The number of odd digits."""
    texts = [completion[-1]["content"] for completion in completions]
    return [float(len(re.findall("[13579]", text))) for text in texts]


async def length(completion_ids: list[Any], **kwargs: Any) -> list[float]:
    return [float(len(ids)) for ids in completion_ids]


def test_several_weighted_reward_functions_sync_and_async_are_summed_for_selection(make_trainer):
    trainer = make_trainer(12, reward_funcs=[odd, length], reward_weights=[1.0, 0.5], max_steps=1)
    trainer.train()
    table = table_of(trainer)
    np.testing.assert_allclose(
        table["reward"], table["rewards/odd"] + 0.5 * table["rewards/length"], rtol=1e-6
    )
    np.testing.assert_allclose(table["rewards/length"], table["tokens"])
    (entry,) = logged(trainer)
    assert entry["rewards/length/mean"] == pytest.approx(table["tokens"].mean())


def test_no_unscorable_rollout_is_kept_while_m_scorable_ones_exist(make_trainer):
    def every_third(completions: list[Any], **kwargs: Any) -> list[float | None]:
        # 12 per group: 4 scored, exactly m; the first function has no word on the rest
        return [r if i % 3 == 0 else None for i, r in enumerate(odd(completions))]

    def nan_on_others(completions: list[Any], **kwargs: Any) -> list[float | None]:
        return [0.5 if i % 3 == 0 else float("nan") for i in range(len(completions))]

    trainer = make_trainer(12, reward_funcs=[every_third, nan_on_others], max_steps=1)
    trainer.train()
    table = table_of(trainer)
    assert table["rollout"][table["kept"]].tolist() == [0, 3, 6, 9] * 2
    assert table["reward"].isna().sum() == 16
    (entry,) = logged(trainer)
    assert entry["pods/unscorable"] == 16


def test_with_fewer_than_m_scorable_the_rest_is_kept_with_advantage_0(make_trainer):
    def only_two(completions: list[Any], **kwargs: Any) -> list[float | None]:
        return [float(i % 12 == 4) if i % 12 in (4, 7) else None for i in range(len(completions))]

    trainer = make_trainer(12, reward_funcs=only_two, max_steps=1)
    trainer.train()
    table = table_of(trainer)
    kept = table[table["kept"]]
    assert len(kept) == 8
    assert kept["advantage"][kept["reward"].isna()].tolist() == [0.0] * 4
    # rewards 1 and 0: mean 1/2, std sqrt(1/2)
    scored = kept["advantage"][kept["reward"].notna()].tolist()
    assert scored == pytest.approx([0.5 / 0.70721, -0.5 / 0.70721] * 2, rel=1e-3)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_a_step_in_which_nothing_is_scorable_changes_no_weight(make_trainer, beta):
    seen = []

    def dies_after_step_1(completions: list[Any], trainer_state: Any, **kwargs: Any) -> list[Any]:
        seen.append(weights(trainer))
        return odd(completions) if trainer_state.global_step == 0 else [None] * len(completions)

    # momentum from step 1 and weight decay would both move the weights in steps 2 and 3
    trainer = make_trainer(
        8, reward_funcs=dies_after_step_1, max_steps=3, weight_decay=0.1, beta=beta
    )
    trainer.train()
    start, after_1, after_2 = seen
    assert not equal(start, after_1)
    assert equal(after_1, after_2)
    assert equal(after_2, weights(trainer))


def test_a_gradient_of_nan_changes_no_weight_and_the_run_goes_on(make_trainer, caplog):
    seen = []

    class Spoiled(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
            seen.append(weights(trainer))

    trainer = make_trainer(8, reward_funcs=odd, max_steps=3, weight_decay=0.1)
    trainer.add_callback(Spoiled())
    parameter = next(trainer.model.parameters())
    parameter.register_hook(lambda grad: grad * (float("nan") if len(seen) == 2 else 1.0))
    trainer.train()
    start, after_1, after_2 = seen
    assert not equal(start, after_1)
    assert equal(after_1, after_2)
    assert not equal(after_2, weights(trainer))
    assert all(torch.isfinite(weight).all() for weight in weights(trainer).values())
    assert [r.message for r in caplog.records if "gradient" in r.message] == [
        "step 2: the gradient is not finite"
    ]
    assert [math.isnan(entry["grad_norm"]) for entry in logged(trainer)] == [False, True, False]


def test_with_one_scored_rollout_no_scale_is_nan(make_trainer):
    def only_one(completions: list[Any], **kwargs: Any) -> list[float | None]:
        return [1.0, *[None] * (len(completions) - 1)]

    trainer = make_trainer(
        12,
        reward_funcs=only_one,
        max_steps=1,
        scale_rewards="batch",
        downsampling_rule="max_contrast",
    )
    trainer.train()
    assert all(torch.isfinite(weight).all() for weight in weights(trainer).values())


def test_extra_logs_of_a_reward_function_stay_beside_their_rollouts(make_trainer):
    def with_log(completions: list[Any], log_extra: Any, log_metric: Any, **kw: Any) -> list[float]:
        log_extra("text", [c[-1]["content"] for c in completions])
        log_metric("calls", 1.0)
        return odd(completions)

    trainer = make_trainer(12, reward_funcs=with_log, log_completions=True, max_steps=1)
    trainer.train()
    logs = trainer._logs
    assert len(logs["prompt"]) == 8
    assert list(map(text_of, logs["completion"])) == list(logs["extra"]["text"])
    assert logged(trainer)[0]["calls"] == 1.0  # scored once, though generated for n


def test_extra_logs_of_the_wrong_length_are_refused(make_trainer):
    def too_few(completions: list[Any], log_extra: Any, **kwargs: Any) -> list[float]:
        log_extra("text", ["once"])
        return odd(completions)

    with pytest.raises(RewardError, match=r"log_extra\('text', ...\) got 1 values for 24 rollouts"):
        make_trainer(12, reward_funcs=too_few, max_steps=1).train()


ALLOWED = "allowed are finite numbers, and None or NaN"


def infinite(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float("inf") if "7" in c[-1]["content"] else 0.0 for c in completions]


def wrong_count(completions: list[Any], **kwargs: Any) -> list[float]:
    return [0.0]


def no_list(completions: list[Any], **kwargs: Any) -> Any:
    return None


def a_mapping(completions: list[Any], **kwargs: Any) -> Any:
    return dict.fromkeys(range(len(completions)), 1.0)


def words(completions: list[Any], **kwargs: Any) -> Any:
    return ["good" if i == 2 else 0.0 for i in range(len(completions))]


def raises(completions: list[Any], **kwargs: Any) -> list[float]:
    raise OSError("grader is down")


FAILURES = {
    infinite: ["returned inf at step 1, which is infinite", ALLOWED, "for the completion '"],
    wrong_count: ["returned 1 rewards for 24 completions at step 1", "the first for '"],
    no_list: ["returned NoneType at step 1; it must return a list", "the first for '"],
    a_mapping: ["returned dict at step 1; it must return a list", "the first for '"],
    words: ["returned 'good' at step 1, which is no number", ALLOWED, "for the completion '"],
    raises: ["failed at step 1: OSError: grader is down. It was given 24", "first of them '"],
}


def as_async(function: Any) -> Any:
    async def later(**given: Any) -> Any:
        return function(**given)

    later.__name__ = function.__name__
    return later


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_failing_reward_function_is_named_with_step_and_completion_and_stops_the_run(
    make_trainer, kind
):
    for function, says in FAILURES.items():
        given = function if kind == "sync" else as_async(function)
        trainer = make_trainer(12, function.__name__, reward_funcs=[odd, given], max_steps=1)
        before = weights(trainer)
        with pytest.raises(RewardError) as caught:
            trainer.train()
        message = str(caught.value)
        assert message.startswith(f"reward function {function.__name__!r} ")
        assert "<think>" in message
        for part in says:
            assert part in message
        assert equal(before, weights(trainer))


def test_an_asynchronous_object_may_come_with_arguments():
    class Grader:
        async def __call__(
            self, completions: list[Any], bonus: float, **kwargs: Any
        ) -> list[float]:
            return [bonus] * len(completions)

    named = partial(Grader(), bonus=0.5)
    named.note = "a partial of one that has attributes is not flattened"
    function = checked(partial(named), "f", lambda: 1, lambda: 8)
    assert asyncio.run(function(completions=["a", "b"])) == [0.5, 0.5]


def test_what_a_reward_function_does_to_its_prompts_and_rows_no_other_rollout_sees(
    make_trainer, dataset
):
    """As in TRL, where each has lists of its own."""
    lengths: list[int] = []

    def careless(prompts: list[Any], completions: list[Any], seen: Any, **columns: Any) -> Any:
        for prompt, completion, own in zip(prompts, completions, seen, strict=True):
            prompt += completion
            own.append(1)
            lengths.append(len(prompt) + 100 * len(own))
        return odd(completions)

    data = dataset.add_column("seen", [[0]] * len(dataset))
    trainer = make_trainer(12, reward_funcs=careless, max_steps=1, data=data)
    trainer.train()
    assert set(lengths) == {len(dataset[0]["prompt"]) + 1 + 200}


def test_a_long_completion_is_shortened_and_every_kind_of_number_is_a_reward():
    numbers = [True, 2, 0.5, np.float32(0.25), np.int64(3), torch.tensor(1.5), None, math.nan]
    given = [[{"role": "assistant", "content": "x" * 5000}]] * len(numbers)
    function = checked(lambda completions, **kw: iter(numbers), "f", lambda: 3, lambda: 8)
    rewards = function(completions=given)
    assert rewards[:6] == [1.0, 2.0, 0.5, 0.25, 3.0, 1.5]
    assert all(map(math.isnan, rewards[6:]))
    ones = checked(lambda completions: np.ones(8), "f", lambda: 3, lambda: 8)
    assert ones(completions=given) == [1.0] * 8
    with pytest.raises(RewardError) as caught:
        checked(lambda completions: [b"1"] * 8, "f", lambda: 3, lambda: 8)(completions=given)
    assert "at step 3" in str(caught.value)
    assert len(str(caught.value)) < 500
