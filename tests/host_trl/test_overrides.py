"""What people override, wrap and set on TRL's trainer works on podsrl's, or is refused by name.

docs/trl.md has the table. Each kind is run with n = m, where it equals TRL to the last bit, and
with n = 4 m, where it equals what does the same without overriding anything; with passes spared and
not. tests/distributed has the kinds on two processes.
"""

import copy
import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import trl
from packaging.version import Version
from peft import LoraConfig
from trl import GRPOTrainer

from podsrl.errors import InvalidInputError, RewardError, UnsupportedError
from podsrl.trl import PODSConfig, PODSTrainer
from podsrl.trl.seam import Changes
from support.overrides import (
    MIXINS,
    AdvantagesByLength,
    DoubledLoss,
    LongerTexts,
    NegatedRewards,
    SetInTheRun,
    Untouched,
)
from support.trl_runs import count_passed_rows, digits, equal, logged, table_of, weights

M = 4
N = 4 * M
CPU: dict[str, Any] = {"use_cpu": True, "bf16": False, "report_to": "none"}
SGD: dict[str, Any] = {"optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0.0}


def negated(completions: list[Any], **kwargs: Any) -> list[float]:
    return [-reward for reward in digits(completions)]


def longer(completions: list[Any], **kwargs: Any) -> list[float]:
    return digits([[{"content": c[-1]["content"] + "777"}] for c in completions])


def ranked(completions: list[Any], prompts: list[Any], **kwargs: Any) -> list[float]:
    rewards = torch.tensor(digits(completions))
    keys = [str(prompt) for prompt in prompts]
    found = torch.empty_like(rewards)
    for key in set(keys):
        own = [i for i, other in enumerate(keys) if other == key]
        found[own] = rewards[own].argsort(dim=0).argsort(dim=0).to(rewards)
    return found.tolist()


REWARDS = {"negated": negated, "longer": longer, "ranked": ranked}


def zero(completions: list[Any], prompts: list[Any], **kwargs: Any) -> list[float]:
    """All equal for the first prompt of the batch, and spread for the others."""
    return [
        0.0 if prompt == prompts[0] else reward
        for prompt, reward in zip(prompts, digits(completions), strict=True)
    ]


def trained(make_trainer: Any, n: int | None, name: str, **fields: Any) -> Any:
    """A trainer that has trained, before another one draws its random numbers."""
    trainer = make_trainer(n, name, **fields)
    trainer.train()
    return trainer


def assert_close(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    for name in left:
        torch.testing.assert_close(left[name], right[name], atol=2e-6, rtol=1e-5)


# ---- n = m ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixin", MIXINS, ids=lambda mixin: mixin.__name__)
def test_with_n_equal_to_m_it_is_trl_to_the_last_bit(make_trainer, mixin):
    theirs = trained(make_trainer, None, "theirs", mixin=mixin, **SGD)
    ours = trained(make_trainer, M, "ours", mixin=mixin, **SGD)
    assert equal(weights(theirs), weights(ours))
    for of_theirs, of_ours in zip(logged(theirs), logged(ours), strict=True):
        timed = {"step_time", "epoch"}
        assert {k: v for k, v in of_theirs.items() if k not in timed} == {
            k: of_ours[k] for k in of_theirs if k not in timed
        }


@pytest.mark.parametrize("mixin", MIXINS, ids=lambda mixin: mixin.__name__)
def test_with_passes_spared_n_equal_to_m_learns_the_same(make_trainer, mixin):
    # one step: after it other random numbers are drawn, as fewer rows are shuffled
    fields = {"mixin": mixin, "reward_funcs": zero, "max_steps": 1, **SGD}
    theirs = trained(make_trainer, None, "theirs", **fields)
    ours = trained(make_trainer, M, "ours", skip_zero_advantage=True, **fields)
    assert_close(weights(theirs), weights(ours))


# ---- n = 4 m -------------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [None, True, False])
@pytest.mark.parametrize(
    "mixin", [m for m, same in MIXINS.items() if same], ids=lambda mixin: mixin.__name__
)
def test_with_n_above_m_it_does_what_the_same_setting_does(make_trainer, mixin, skip):
    same = MIXINS[mixin]
    fields = {**SGD, "skip_zero_advantage": skip, "num_iterations": 2, "max_steps": 3}
    overridden = trained(make_trainer, N, "overridden", mixin=mixin, **fields)
    fields["learning_rate"] *= same.get("rate", 1.0)
    reward = REWARDS.get(same.get("reward", ""), digits)
    plain = trained(make_trainer, N, "plain", reward_funcs=reward, **fields)

    assert_close(weights(overridden), weights(plain))
    for step in (1, 3):
        left, right = table_of(overridden, step), table_of(plain, step)
        assert left["kept"].tolist() == right["kept"].tolist()
        np.testing.assert_allclose(left["reward"], right["reward"], rtol=1e-6)
        is_doubled = mixin.__name__ == "DoubledAdvantages"
        np.testing.assert_allclose(
            left["advantage"], right["advantage"] * (2 if is_doubled else 1), rtol=1e-5
        )
    assert logged(overridden)[0]["reward"] == pytest.approx(logged(plain)[0]["reward"])


@pytest.mark.parametrize("n", [M, N])
def test_methods_that_look_on_are_called_and_their_logs_arrive(make_trainer, n):
    trainer = make_trainer(n, mixin=Untouched, num_iterations=2)
    trainer.train()
    assert trainer.called == {name for name in vars(Untouched) if not name.startswith("__")} - {
        "called",
        "_look",
    }
    assert logged(trainer)[0]["mine"] == 1.0


@pytest.mark.parametrize("skip", [None, True, False])
@pytest.mark.parametrize("reward", [zero, digits], ids=["one prompt is all equal", "spread"])
def test_advantages_of_ones_own_belong_to_their_rows(make_trainer, monkeypatch, skip, reward):
    """Issue of CoRPO: the live prompt's rows got the dead prompt's zeros."""
    trainer = make_trainer(
        2 * M,
        mixin=AdvantagesByLength,
        reward_funcs=reward,
        skip_zero_advantage=skip,
        num_iterations=2,
        max_steps=2,
    )
    passed = count_passed_rows(monkeypatch)
    trainer.train()

    table = table_of(trainer)
    kept = table[table["kept"]]
    expected = kept["tokens"] / 20 - 0.87
    np.testing.assert_allclose(kept["advantage"], expected, atol=1e-5)
    assert (kept["advantage"] != 0).all()  # so every row has a pass: log-probs, and two updates
    assert passed == [2 * M, 2 * M, 2 * M]
    assert logged(trainer)[0]["grad_norm"] > 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda output: output["advantages"][:-1], "returned 8 rows and 7 advantages, and 8 rows"),
        (
            lambda output: output["advantages"].repeat(2),
            "returned 8 rows and 16 advantages, and 8 rows",
        ),
    ],
)
def test_advantages_of_another_number_are_refused_by_name(make_trainer, change, says):
    class Changes:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            output = super()._generate_and_score_completions(inputs)
            return {**output, "advantages": change(output)}

    with pytest.raises(UnsupportedError, match=f"Changes._generate_and_score_completions {says}"):
        make_trainer(N, mixin=Changes).train()


def test_advantages_for_each_token_are_trained_with(make_trainer):
    """TRL's loss takes them from a subclass: one for each token of a row."""

    class EachToken:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            output = super()._generate_and_score_completions(inputs)
            mask = output["completion_mask"].float()
            output["advantages"] = 2 * output["advantages"].unsqueeze(1) * mask
            return output

    fields = {"reward_funcs": zero, **SGD}
    by_token = trained(make_trainer, N, "by token", mixin=EachToken, **fields)
    fields["learning_rate"] *= 2
    plain = trained(make_trainer, N, "plain", **fields)
    assert_close(weights(by_token), weights(plain))
    left, right = table_of(by_token), table_of(plain)
    np.testing.assert_allclose(left["advantage"], 2 * right["advantage"], rtol=1e-5, atol=1e-6)
    assert logged(by_token)[1]["pods/rows_passed"] == logged(plain)[1]["pods/rows_passed"]


def test_what_a_subclass_adds_for_each_row_stays_with_its_row(make_trainer):
    class Adds:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            output = super()._generate_and_score_completions(inputs)
            lengths = output["completion_mask"].sum(dim=1)
            return {
                **output,
                "lengths": lengths,
                "listed": lengths.tolist(),
                "note": "of the batch",
            }

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            seen.append(inputs["completion_mask"].sum(dim=1).tolist())
            assert inputs["lengths"].tolist() == list(inputs["listed"]) == seen[-1]
            return super()._compute_loss(model, inputs)

    seen: list[list[int]] = []
    make_trainer(2 * M, mixin=Adds, reward_funcs=zero, skip_zero_advantage=True).train()
    assert {len(lengths) for lengths in seen} == {M}  # half of the rows have no gradient


@pytest.mark.parametrize("n", [M, N])
def test_a_batch_that_is_sampled_again_is_the_one_that_is_trained_on(make_trainer, n):
    """DAPO's way: a batch that teaches nothing is made anew."""

    class Again:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            super()._generate_and_score_completions(list(inputs))
            output = super()._generate_and_score_completions(inputs)
            made.append((output["completion_ids"].tolist(), output["advantages"].tolist()))
            return output

    made: list[Any] = []
    trainer = make_trainer(n, mixin=Again, max_steps=1)
    trainer.train()
    table = table_of(trainer)
    (_, advantages), kept = made[0], table[table["kept"]]
    np.testing.assert_allclose(kept["advantage"], advantages, atol=1e-5)
    rewards_P_M = kept["reward"].to_numpy().reshape(2, M)
    expected = (rewards_P_M - rewards_P_M.mean(axis=1, keepdims=True)) / (
        rewards_P_M.std(axis=1, ddof=1, keepdims=True) + 1e-4
    )
    np.testing.assert_allclose(advantages, expected.ravel(), atol=1e-4)
    assert len(table) == 2 * n
    assert logged(trainer)[0]["pods/rollouts_generated"] == 4 * n


def test_the_first_of_two_batches_is_logged_where_it_is_trained_on(make_trainer):
    class First:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            output = super()._generate_and_score_completions(list(inputs))
            super()._generate_and_score_completions(inputs)
            made.append(output)
            return output

    made: list[Any] = []
    trainer = make_trainer(N, mixin=First, max_steps=1)
    trainer.train()
    table = table_of(trainer)
    mask = made[0]["completion_mask"].bool()
    ids = [row[own].tolist() for row, own in zip(made[0]["completion_ids"], mask, strict=True)]
    trained_on = trainer.processing_class.batch_decode(ids, skip_special_tokens=True)
    assert table[table["kept"]]["completion"].tolist() == trained_on


@pytest.mark.parametrize("n", [M, N])
def test_a_name_of_ones_own_stays_on_the_models_card(make_trainer, n):
    class Mine:
        _name = "My method"

    assert make_trainer(n, mixin=Mine)._name == "My method"


def test_a_batch_that_is_made_in_pieces_is_trained_on_whole(make_trainer):
    class InPieces:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            make = super()._generate_and_score_completions
            pieces = [make(inputs[:M]), make(inputs[M:])]
            joined = {}
            for name, value in pieces[0].items():
                values = [piece[name] for piece in pieces]
                if value.ndim == 0:
                    joined[name] = sum(values)
                elif name.startswith("completion"):  # padded on the right
                    rows = [row for of_piece in values for row in of_piece]
                    joined[name] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
                else:
                    joined[name] = torch.cat(values)
            return joined

    trainer = make_trainer(N, mixin=InPieces, max_steps=1)
    trainer.train()
    table = table_of(trainer)
    assert len(table) == 2 * N
    assert table["kept"].sum() == 2 * M
    assert sorted(set(table["group"])) == [0, 1]


@pytest.mark.parametrize("n", [M, N])
def test_rows_that_a_subclass_hands_on_are_those_that_are_generated_for(make_trainer, dataset, n):
    """A curriculum, hints, relabelled answers: `super()` gets other rows than TRL gave."""

    class Reversed:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            rows = [{**row, "tag": "new"} for row in reversed(inputs)]
            output = super()._generate_and_score_completions(rows)
            assert len(rows) == len(output["advantages"])
            return output

    def graded(prompts: Any, answer: Any, tag: Any, **columns: Any) -> list[float]:
        assert set(tag) == {"new"}
        for prompt, of_prompt in zip(prompts, answer, strict=True):
            assert right[str(prompt)] == of_prompt
        return digits(columns["completions"])

    right = {str(row["prompt"]): row["answer"] for row in dataset}
    trainer = make_trainer(
        n,
        mixin=Reversed,
        reward_funcs=graded,
        data=dataset.add_column("tag", ["old"] * len(dataset)),
    )
    trainer.train()
    assert logged(trainer)[0]["reward"] > 0


def test_rewards_that_are_cut_by_the_trainers_num_generations_are_cut_by_groups(make_trainer):
    class Relative:
        def _calculate_rewards(self, *args: Any) -> Any:
            rewards = super()._calculate_rewards(*args)
            grouped = rewards.view(-1, self.num_generations, rewards.shape[1])
            shapes.append(tuple(grouped.shape))
            return (grouped - grouped.mean(dim=1, keepdim=True)).view_as(rewards)

    shapes: list[tuple[int, ...]] = []
    trainer = make_trainer(N, mixin=Relative, max_steps=1)
    trainer.train()
    assert shapes == [(2, N, 1)]
    assert trainer.num_generations == M
    rewards_P_N = table_of(trainer)["reward"].to_numpy().reshape(2, N)
    np.testing.assert_allclose(rewards_P_N.mean(axis=1), 0, atol=1e-6)


def test_a_class_that_stands_behind_is_refused_with_the_order_that_works(make_trainer):
    class Theirs(GRPOTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            return super()._generate_and_score_completions(inputs)

    class Mine(PODSTrainer, Theirs):
        pass

    plain = make_trainer(None, "plain")
    arguments = (plain.model, digits, PODSConfig("unused", num_rollouts=8, **CPU))
    with pytest.raises(UnsupportedError, match=r"Theirs\._generate.* class Mine\(Theirs, PODSTr"):
        Mine(*arguments, plain.train_dataset, processing_class=plain.processing_class)

    class InFront(Theirs, PODSTrainer):
        pass

    InFront(*arguments, plain.train_dataset, None, plain.processing_class)  # also by position


def test_a_class_that_replaced_trls_after_the_import_is_told(make_trainer, monkeypatch, caplog):
    class Theirs(GRPOTrainer):
        pass

    class Mine(PODSTrainer):
        pass

    monkeypatch.setattr(trl, "GRPOTrainer", Mine)
    make_trainer(N, "of podsrl")
    assert "trl.GRPOTrainer is now" not in caplog.text

    monkeypatch.setattr(trl, "GRPOTrainer", Theirs)
    make_trainer(N, "of others")
    assert f"trl.GRPOTrainer is now {Theirs!r}" in caplog.text


@pytest.mark.parametrize("name", ["_compute_loss", "compute_loss", "training_step"])
def test_a_loss_that_is_wrapped_on_the_trainer_is_given_every_row(make_trainer, name):
    trainer = make_trainer(2 * M, reward_funcs=zero, max_steps=1)
    wrapped = getattr(trainer, name)
    setattr(trainer, name, lambda *args, **kwargs: wrapped(*args, **kwargs))
    trainer.train()
    assert logged(trainer)[0]["pods/rows_passed"] == 2 * M

    plain = make_trainer(2 * M, "plain", reward_funcs=zero, max_steps=1)
    plain.train()
    assert logged(plain)[0]["pods/rows_passed"] == M


@pytest.mark.skipif(
    Version(trl.__version__) < Version("1.14"),
    reason="before TRL 1.14 its own call gives batch_size by place, so a subclass must take it so",
)
def test_log_probs_may_be_asked_for_by_name(make_trainer):
    class ByName:
        def _get_per_token_logps_and_entropies(
            self, model: Any, input_ids: Any, attention_mask: Any, keep: Any, **kwargs: Any
        ) -> Any:
            return super()._get_per_token_logps_and_entropies(
                model,
                input_ids=input_ids,
                attention_mask=attention_mask,
                logits_to_keep=keep,
                **kwargs,
            )

    fields = {"reward_funcs": zero, "num_iterations": 2, "max_steps": 2, **SGD}
    by_name = trained(make_trainer, 2 * M, "by name", mixin=ByName, **fields)
    plain = trained(make_trainer, 2 * M, "plain", **fields)
    assert equal(weights(by_name), weights(plain))


def test_log_probs_may_be_asked_for_in_another_order(make_trainer):
    """As with rows that are sorted by length, so that little is padded."""

    class Reversed:
        def _get_per_token_logps_and_entropies(
            self, model: Any, input_ids: Any, attention_mask: Any, *args: Any, **kwargs: Any
        ) -> Any:
            flipped = super()._get_per_token_logps_and_entropies(
                model, input_ids.flip(0), attention_mask.flip(0), *args, **kwargs
            )
            return tuple(None if part is None else part.flip(0) for part in flipped)

    fields = {"reward_funcs": zero, "num_iterations": 2, "max_steps": 2, **SGD}
    reversed_ = trained(make_trainer, 2 * M, "reversed", mixin=Reversed, **fields)
    plain = trained(make_trainer, 2 * M, "plain", **fields)
    assert_close(weights(reversed_), weights(plain))


@pytest.mark.parametrize("n", [M, N])
def test_a_reward_function_can_not_change_what_is_trained_on(make_trainer, n):
    def meddling(
        completions: list[Any], prompts: list[Any], completion_ids: list[Any], **kwargs: Any
    ) -> list[float]:
        rewards = digits(completions)
        for completion, prompt, ids in zip(completions, prompts, completion_ids, strict=True):
            completion[-1]["content"] = "changed"
            prompt[-1]["content"] = "changed"
            ids.pop()
        return rewards

    fields = {"log_completions": True, **SGD}
    meddled = trained(make_trainer, n, "meddled", reward_funcs=meddling, **fields)
    plain = trained(make_trainer, n, "plain", **fields)
    assert equal(weights(meddled), weights(plain))
    left, right = table_of(meddled), table_of(plain)
    for column in ("prompt", "completion", "tokens"):
        assert left[column].tolist() == right[column].tolist()


def test_a_wrapper_on_the_trainer_itself_counts_as_a_method_does(make_trainer):
    wrapped = make_trainer(N, "wrapped", **SGD)
    calculate = wrapped._calculate_rewards
    wrapped._calculate_rewards = lambda *args: -calculate(*args)
    wrapped.train()
    by_method = trained(make_trainer, N, "by_method", mixin=NegatedRewards, **SGD)
    assert equal(weights(wrapped), weights(by_method))
    assert "_calculate_rewards" in vars(wrapped)  # it is where the user put it
    assert "_generate" not in vars(wrapped)


# ---- on TRL's class, as by `GRPOTrainer._calculate_rewards = mine` -------------------------------


@pytest.fixture
def wrap_trl(monkeypatch):
    """wrap_trl(name, change): a method of GRPOTrainer whose result is changed."""

    def wrap(name: str, change: Any) -> None:
        original = getattr(GRPOTrainer, name)

        def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
            return change(original(self, *args, **kwargs))

        monkeypatch.setattr(GRPOTrainer, name, changed)

    return wrap


@pytest.mark.parametrize("n", [M, N])
def test_rewards_that_are_changed_on_trls_class_are_selected_by(make_trainer, wrap_trl, n):
    by_method = trained(make_trainer, n, "by_method", mixin=NegatedRewards, **SGD)
    wrap_trl("_calculate_rewards", lambda rewards: -rewards)
    on_class = trained(make_trainer, n, "on_class", **SGD)
    assert equal(weights(on_class), weights(by_method))
    assert table_of(on_class)["kept"].tolist() == table_of(by_method)["kept"].tolist()


@pytest.mark.parametrize("name", ["_compute_loss", "compute_loss"])
@pytest.mark.parametrize("n", [M, N])
def test_a_loss_that_is_changed_on_trls_class_is_given_every_row(make_trainer, wrap_trl, n, name):
    by_method = trained(make_trainer, n, "by_method", mixin=DoubledLoss, reward_funcs=zero, **SGD)
    wrap_trl(name, lambda loss: 2 * loss)
    on_class = trained(make_trainer, n, "on_class", reward_funcs=zero, **SGD)
    assert equal(weights(on_class), weights(by_method))
    who = on_class.pods.changes.sees_rows
    assert who.startswith(f"GRPOTrainer.{name} of {__file__}:")
    if n > M:
        assert who in on_class.pods.settings.why_all_pass


def test_advantages_that_are_changed_on_trls_class_are_refused_by_name(make_trainer, wrap_trl):
    """With n = m they are trained with, as in TRL; else podsrl's own would replace them."""

    def doubled(output: dict[str, Any]) -> dict[str, Any]:
        return {**output, "advantages": 2 * output["advantages"]}

    plain = trained(make_trainer, M, "plain", **{**SGD, "learning_rate": 2 * SGD["learning_rate"]})
    wrap_trl("_generate_and_score_completions", doubled)
    on_class = trained(make_trainer, M, "on_class", **SGD)
    assert_close(weights(on_class), weights(plain))

    says = r"GRPOTrainer._generate_and_score_completions of .*test_overrides.py:\d+ changes the adv"
    with pytest.raises(UnsupportedError, match=says):
        make_trainer(N, "n above m", **SGD).train()


def test_a_method_on_trls_class_that_only_looks_on_is_let_be(make_trainer, wrap_trl):
    plain = trained(make_trainer, N, "plain", **SGD)
    seen = []
    wrap_trl("_generate_and_score_completions", lambda output: seen.append(1) or output)
    looked_at = trained(make_trainer, N, "looked_at", **SGD)
    assert seen
    assert equal(weights(looked_at), weights(plain))


def test_methods_of_trl_itself_are_nobodys(make_trainer):
    assert make_trainer(N).pods.changes == Changes()


def test_a_wrapper_that_changes_advantages_gets_log_probs_of_every_row(make_trainer, monkeypatch):
    trainer = make_trainer(2 * M, reward_funcs=zero, num_iterations=2, max_steps=2)
    generate = trainer._generate_and_score_completions

    def changed(inputs: Any) -> dict[str, Any]:
        output = generate(inputs)
        return {**output, "advantages": torch.ones_like(output["advantages"])}

    trainer._generate_and_score_completions = changed
    passed = count_passed_rows(monkeypatch)
    trainer.train()
    assert passed == [2 * M, 2 * M, 2 * M]  # log-probs, and two updates
    table = table_of(trainer)
    assert table[table["kept"]]["advantage"].eq(1.0).all()


def test_a_loss_of_ones_own_is_given_every_row_unless_sparing_is_asked_for(make_trainer, caplog):
    caplog.set_level(logging.INFO, "podsrl")
    make_trainer(2 * M, mixin=DoubledLoss, reward_funcs=zero, max_steps=1).train()
    why = "every row has a pass (DoubledLoss._compute_loss may count on every row"
    assert any(why in record.message for record in caplog.records)

    trainer = make_trainer(2 * M, mixin=DoubledLoss, reward_funcs=zero, skip_zero_advantage=True)
    assert trainer.pods.settings.skip_zero_advantage


def test_a_subclass_that_prepares_its_own_inputs_is_refused_by_name(make_trainer):
    class Prepares:
        def _prepare_inputs(self, generation_batch: Any) -> Any:
            return GRPOTrainer._prepare_inputs(self, generation_batch)

    says = r"Prepares prepares its micro-batches without PODSTrainer\._prepare_inputs"
    with pytest.raises(UnsupportedError, match=says):
        make_trainer(N, mixin=Prepares).train()


def test_a_subclass_that_makes_its_own_batch_is_refused_by_name(make_trainer):
    class Makes:
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            return GRPOTrainer._generate_and_score_completions(self, inputs)

    says = r"Makes\._generate_and_score_completions made a batch without PODSTrainer's own"
    with pytest.raises(UnsupportedError, match=says):
        make_trainer(N, mixin=Makes).train()


def test_rewards_of_another_shape_are_refused(make_trainer):
    class Sums:
        def _calculate_rewards(self, *args: Any) -> Any:
            return super()._calculate_rewards(*args).sum(dim=1)

    says = r"_calculate_rewards returned shape \(32,\), .* 32 rollouts .* 1 reward functions"
    with pytest.raises(InvalidInputError, match=says):
        make_trainer(N, mixin=Sums).train()


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("max_variance", "is called with all 16 rollouts of a prompt, and Both._generate_and"),
        ("max_contrast", "must not cut them by num_generations"),
    ],
)
def test_what_one_method_remembers_for_the_other_is_told_to_have_other_rows(
    make_trainer, caplog, rule, says
):
    seen = []

    class Both:
        def _calculate_rewards(self, *args: Any) -> Any:
            self.remembered = super()._calculate_rewards(*args)
            return self.remembered

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            seen.append(self.pods.own_rows(self.remembered).flatten().tolist())
            return output

    trainer = make_trainer(N, mixin=Both, downsampling_rule=rule, max_steps=1)
    assert any(says in record.message for record in caplog.records)
    trainer.train()
    table = table_of(trainer)
    assert seen == [pytest.approx(table[table["kept"]]["reward"].tolist())]
    with pytest.raises(InvalidInputError, match="while no batch is made"):
        trainer.pods.own_rows(torch.zeros(32))


# ---- what is set in a run ------------------------------------------------------------------------


def outcome(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float(i % 5 == 0) for i in range(len(completions))]


def form(completions: list[Any], **kwargs: Any) -> list[float]:
    """Highest and lowest where `outcome` is 0, so that whoever selects by one leaves the other."""
    return [[0.5, 3.0, -3.0, 2.5, -2.5][i % 5] for i in range(len(completions))]


def trained_with(make_trainer: Any, n: int | None, name: str, values: Any, **fields: Any) -> Any:
    """A trainer whose attributes were set at the end of the first of two steps."""
    callback = SetInTheRun(1, values)
    trainer = make_trainer(
        n, name, reward_funcs=[outcome, form], callbacks=[callback], **{**SGD, **fields}
    )
    callback.trainer = trainer
    trainer.train()
    return trainer


SET_IN_A_RUN = {
    "reward_weights": {"reward_weights": torch.tensor([0.0, 1.0])},
    "scale_rewards": {"scale_rewards": "none"},
    "temperature": {"temperature": 0.5},
    "epsilon": {"epsilon_low": 0.1},
    "loss_type": {"loss_type": "dr_grpo"},
    "learning rate": {"args.learning_rate": 0.01},
    "reward functions": {"reward_funcs": [form, outcome]},
    "args that TRL reads once": {"args.reward_weights": [0.0, 1.0], "args.beta": 0.5},
}


@pytest.mark.parametrize("values", SET_IN_A_RUN.values(), ids=SET_IN_A_RUN)
def test_what_a_callback_sets_counts_with_n_equal_to_m_as_in_trl(make_trainer, values):
    theirs = trained_with(make_trainer, None, "theirs", values)
    ours = trained_with(make_trainer, M, "ours", values)
    assert equal(weights(theirs), weights(ours))


@pytest.mark.parametrize(
    ("values", "score"),
    [
        (SET_IN_A_RUN["reward_weights"], form),
        ({"reward_weights": torch.tensor([1.0, 0.0])}, outcome),
        ({"args.selection_weights": [0.0, 1.0]}, form),
        ({"args.selection_weights": [1.0, 0.0]}, outcome),
        ({"reward_funcs": [form, form]}, form),
    ],
)
def test_with_n_above_m_the_next_generation_follows_it(make_trainer, caplog, values, score):
    caplog.set_level(logging.INFO, "podsrl")
    trainer = trained_with(make_trainer, N, "run", values)
    table = table_of(trainer, 2)
    of_score = np.array(score([None] * 2 * N)).reshape(2, N)
    kept_P_N = table["kept"].to_numpy().reshape(2, N)
    for place, (rewards_N, kept_N) in enumerate(zip(of_score, kept_P_N, strict=True)):
        # the m/2 highest and the m/2 lowest, or as good as they
        assert sorted(rewards_N[kept_N])[-1] == max(rewards_N)
        assert sorted(rewards_N[kept_N])[0] == min(rewards_N)
        if score is form:
            rollouts = place * N + np.flatnonzero(kept_N)
            assert set(rollouts % 5) == {1, 2}  # none that `outcome` is 1 of
    if "reward_funcs" not in values:
        told = [record.message for record in caplog.records if "from here on" in record.message]
        assert len(told) == 1
        assert told[0].startswith("step 2: from here on ")


def test_the_number_of_rollouts_may_change_in_a_run(make_trainer):
    trainer = trained_with(make_trainer, N, "run", {"args.num_rollouts": 2 * M})
    sizes = [len(table_of(trainer, step)) for step in (1, 2)]
    assert sizes == [2 * N, 2 * 2 * M]
    assert [entry["pods/rollouts"] for entry in logged(trainer)] == [2 * N, 2 * 2 * M]


def test_another_rule_or_baseline_may_be_set_in_a_run(make_trainer):
    values = {"args.downsampling_rule": "max_reward", "args.advantage_baseline": "group"}
    trainer = trained_with(make_trainer, N, "run", values)
    table = table_of(trainer, 2)
    rewards_P_N = table["reward"].to_numpy().reshape(2, N)
    kept_P_N = table["kept"].to_numpy().reshape(2, N)
    for rewards_N, kept_N in zip(rewards_P_N, kept_P_N, strict=True):
        assert sorted(rewards_N[kept_N]) == sorted(rewards_N)[-M:]
    # relative to all of the group the best ones are all above the mean
    assert (table[table["kept"]]["advantage"] >= 0).all()
    assert table[table["kept"]]["advantage"].sum() > 0


def test_a_run_that_comes_to_keep_all_has_no_table_of_before(make_trainer):
    trainer = trained_with(
        make_trainer,
        N,
        "run",
        {"args.num_rollouts": M},
        log_completions=True,
        num_completions_to_print=0,
    )
    folder = Path(trainer.args.output_dir) / "completions"
    first, second = (pd.read_parquet(folder / f"completions_{s:05d}.parquet") for s in (1, 2))
    assert (len(first), len(second)) == (2 * N, 2 * M)
    assert "kept" not in second


def test_another_kind_of_loss_while_rows_are_left_is_a_named_error(make_trainer):
    callback = SetInTheRun(1, {"loss_type": "dapo"})
    trainer = make_trainer(2 * M, reward_funcs=zero, callbacks=[callback], num_iterations=2)
    callback.trainer = trainer
    with pytest.raises(InvalidInputError, match="changed from 'grpo' to 'dapo' while rows"):
        trainer.train()


def test_a_reward_function_that_is_set_in_a_run_is_as_good_as_one_from_the_start(make_trainer):
    seen = []

    def wide(completions: list[Any], num_rollouts: int, **kwargs: Any) -> list[float]:
        seen.append(num_rollouts)
        return digits(completions)

    def broken(completions: list[Any], **kwargs: Any) -> list[float]:
        return [1.0]

    trainer = trained_with(make_trainer, N, "run", {"reward_funcs": [wide, form]})
    assert seen == [N]
    assert trainer.reward_funcs[0] is wide  # and what the user put there is there
    with pytest.raises(RewardError, match="returned 1 rewards for 32 completions at step 2"):
        trained_with(make_trainer, N, "other", {"reward_funcs": [broken, form]})


def test_a_reward_function_can_be_called_and_copied_as_it_is(make_trainer):
    class Reads:
        def _calculate_rewards(self, *args: Any) -> Any:
            (function,) = self.reward_funcs
            assert function([[{"content": "13"}]]) == digits([[{"content": "13"}]])
            assert copy.copy(function)(completions=[[{"content": "1"}]]) == [0.5]
            return super()._calculate_rewards(*args)

    make_trainer(N, mixin=Reads, max_steps=1).train()


def test_a_kl_term_that_is_switched_on_in_a_run_gives_every_row_a_pass(make_trainer, monkeypatch):
    lora = LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM")
    callback = SetInTheRun(1, {"beta": 0.1})
    trainer = make_trainer(
        2 * M, reward_funcs=zero, callbacks=[callback], peft_config=lora, max_steps=2
    )
    callback.trainer = trainer
    trainer.train()
    assert [entry["pods/rows_passed"] for entry in logged(trainer)] == [M, M + 2 * M]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"num_generations": 2}, "the trainer's num_generations was changed from 4 to 2"),
        ({"args.num_generations": 8}, "args.num_generations was changed from 4 to 8"),
        ({"args.num_rollouts": 2}, "num_generations=4 rollouts can't be kept of num_rollouts=2"),
        ({"args.num_rollouts": "16"}, "num_rollouts must be an integer; got '16'"),
        ({"args.method": "max_contrast"}, "args.method was changed from None to 'max_contrast'"),
        ({"args.advantage_baseline": "all"}, "advantage_baseline='all'; allowed: kept, group"),
        ({"reward_weights": [1.0, 1.0]}, r"reward_weights are \[1.0, 1.0\], and TRL multiplies"),
        ({"reward_weights": torch.ones(3)}, "reward_weights has 3 numbers for 2 reward functions"),
        ({"args.selection_weights": [1.0]}, "selection_weights has 1 numbers for 2 reward"),
        (
            {
                "multi_objective_aggregation": "normalize_then_sum",
                "args.downsampling_rule": "max_contrast",
            },
            "downsampling_rule='max_contrast' needs multi_objective_aggregation=",
        ),
        (
            {"scale_rewards": "batch", "args.advantage_baseline": "group"},
            "advantage_baseline='group' needs scale_rewards",
        ),
    ],
)
def test_what_can_not_count_in_a_run_is_a_named_error(make_trainer, values, says):
    with pytest.raises(InvalidInputError, match=says):
        trained_with(make_trainer, N, "run", values)


def test_an_evaluation_that_borrows_the_trainers_settings_leaves_training_alone(
    make_trainer, dataset
):
    """Public code sets num_generations, or other reward functions, while it evaluates."""

    class Borrows:
        def evaluate(self, *args: Any, **kwargs: Any) -> Any:
            names = ("num_generations", "reward_funcs", "reward_weights")
            before = {name: getattr(self, name) for name in names}
            self.num_generations = self.args.num_generations = 1
            self.reward_funcs = [negated]
            self.reward_weights = torch.tensor([2.0])
            try:
                return super().evaluate(*args, **kwargs)
            finally:
                for name, value in before.items():
                    setattr(self, name, value)
                self.args.num_generations = before["num_generations"]

    fields = {
        "eval_dataset": dataset.select(range(4)),
        "eval_strategy": "steps",
        "eval_steps": 1,
        "per_device_eval_batch_size": 4,
    }
    trainer = make_trainer(N, mixin=Borrows, **fields)
    trainer.train()
    evaluations = [entry for entry in trainer.state.log_history if "eval_reward" in entry]
    assert len(evaluations) == 2
    assert all(entry["eval_reward"] <= 0 for entry in evaluations)
    assert all(entry["reward"] >= 0 for entry in logged(trainer))


# ---- reward functions ----------------------------------------------------------------------------


def ranks_by(width: int, completions: list[Any], **kwargs: Any) -> list[float]:
    """The rank of each completion among `width` neighbours."""
    rewards = np.array(digits(completions)) + np.linspace(0, 1e-6, len(completions))
    return np.concatenate(
        [piece.argsort().argsort() for piece in rewards.reshape(-1, width)]
    ).tolist()


def test_a_reward_function_is_told_how_wide_a_group_is(make_trainer, dataset):
    widths: dict[bool, set[int]] = {True: set(), False: set()}
    trainers = []

    def rank(completions: list[Any], num_rollouts: int, **kwargs: Any) -> list[float]:
        widths[trainers[0].model.training].add(num_rollouts)
        return ranks_by(num_rollouts, completions)

    trainer = make_trainer(
        N,
        reward_funcs=rank,
        eval_dataset=dataset.select(range(4)),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
        num_generations_eval=2,
    )
    trainers.append(trainer)
    trainer.train()
    assert widths == {True: {N}, False: {2}}

    table = table_of(trainer)
    best = table[table["reward"] == N - 1]
    assert best["kept"].all()
    assert len(best) == 2


@pytest.mark.parametrize("kind", ["async", "object", "partial", "without kwargs", "a column"])
def test_every_kind_of_reward_function_is_told_it(make_trainer, dataset, kind):
    seen: set[Any] = set()

    def score(completions: list[Any], num_rollouts: Any, **kwargs: Any) -> list[float]:
        seen.add(str(num_rollouts))
        return digits(completions)

    async def score_async(completions: list[Any], num_rollouts: int, **kwargs: Any) -> list[float]:
        return score(completions, num_rollouts)

    class Scorer:
        __name__ = "scorer"

        def __call__(self, completions: list[Any], **kwargs: Any) -> list[float]:
            return score(completions, kwargs["num_rollouts"])

    def bare(prompts, completions, completion_ids, trainer_state, **kwargs):
        return score(completions, kwargs["num_rollouts"])

    data = dataset
    function: Any = {"async": score_async, "object": Scorer(), "without kwargs": bare}.get(
        kind, score
    )
    if kind == "partial":
        function = partial(score)
        function.__name__ = "score"
    if kind == "a column":
        data = dataset.add_column("num_rollouts", ["mine"] * len(dataset))
    make_trainer(N, reward_funcs=function, data=data, max_steps=1).train()
    assert seen == ({str(["mine"] * 2 * N)} if kind == "a column" else {str(N)})


def test_a_function_that_ranks_pieces_of_m_is_told(make_trainer, caplog):
    """TRL#6680, #4707: in 5 of 12 prompts the best rollout was not kept."""

    def rank(completions: list[Any], **kwargs: Any) -> list[float]:
        return ranks_by(M, completions)

    make_trainer(N, reward_funcs=[rank, digits], max_steps=2).train()
    (said,) = [r.message for r in caplog.records if "every 4 rollouts" in r.message]
    assert said.startswith("step 1: reward function 'rank' gave the same 4 different rewards")
    assert "num_rollouts" in said


@pytest.mark.parametrize("kind", ["plain", "nested", "object"])
def test_a_function_that_reads_num_generations_is_told_at_once(make_trainer, caplog, kind):
    def plain(completions: list[Any], args: Any = None, **kwargs: Any) -> list[float]:
        return digits(completions) if args is None else [args.num_generations]

    def nested(completions: list[Any], **kwargs: Any) -> list[float]:
        return [(lambda num_generations: 0.0)(4) for _ in completions]

    class Scorer:
        __name__ = "scorer"

        def __call__(self, completions: list[Any], **kwargs: Any) -> list[float]:
            num_generations = 4
            return [0.0 * num_generations for _ in completions]

    function: Any = {"plain": plain, "nested": nested, "object": Scorer()}[kind]
    make_trainer(N, reward_funcs=[function, digits])
    (said,) = [r.message for r in caplog.records if "reads num_generations" in r.message]
    assert f"{function.__name__!r} reads num_generations (4), and 16 rollouts" in said

    caplog.clear()
    make_trainer(M, "as TRL", reward_funcs=[function, digits])  # a group is as wide as it thinks
    assert not [r for r in caplog.records if "reads num_generations" in r.message]


def test_a_subclass_finds_the_attributes_of_its_reward_functions(make_trainer):
    """Public code leaves results on the function for the trainer to read, and takes them away."""

    class Scorer:
        __name__ = "scorer"
        last: list[float] | None = None

        def __call__(self, completions: list[Any], **kwargs: Any) -> list[float]:
            self.last = digits(completions)
            return self.last

        def forget(self) -> None:
            self.last = None

    class AwaitedScorer(Scorer):
        """Its attributes are those of its classes, until it is called."""

        __name__ = "awaited_scorer"

        async def __call__(self, completions: list[Any], **kwargs: Any) -> list[float]:
            return super().__call__(completions)

    async def asynchronous(completions: list[Any], **kwargs: Any) -> list[float]:
        asynchronous.last = digits(completions)
        return asynchronous.last

    seen = []

    class Reads:
        def _calculate_rewards(self, *args: Any) -> Any:
            scorer, awaited_scorer, awaited = self.reward_funcs
            assert scorer.last is awaited_scorer.last is None
            rewards = super()._calculate_rewards(*args)
            seen.append([scorer.last == awaited_scorer.last == awaited.last, len(scorer.last)])
            scorer.forget()
            awaited_scorer.forget()
            awaited.last = None
            return rewards

    scorers = [Scorer(), AwaitedScorer()]
    make_trainer(N, mixin=Reads, reward_funcs=[*scorers, asynchronous], max_steps=1).train()
    assert seen == [[True, 2 * N]]
    assert [scorer.last for scorer in scorers] == [None, None]
    assert asynchronous.last is None


# ---- what is logged ------------------------------------------------------------------------------


def test_a_column_called_kept_is_refused_where_podsrl_adds_one(make_trainer):
    def with_log(completions: list[Any], log_extra: Any, **kwargs: Any) -> list[float]:
        log_extra("kept", ["mine"] * len(completions))
        return digits(completions)

    make_trainer(M, "as TRL", reward_funcs=with_log, max_steps=1).train()
    with pytest.raises(Exception, match=r"log_extra\('kept', ...\).* choose another"):
        make_trainer(N, reward_funcs=with_log, max_steps=1).train()


@pytest.mark.parametrize("logging_steps", [1, 2])
def test_an_evaluation_in_the_same_step_leaves_the_table_of_training(
    make_trainer, dataset, logging_steps
):
    trainer = make_trainer(
        N,
        log_completions=True,
        num_completions_to_print=0,
        logging_steps=logging_steps,
        eval_dataset=dataset.select(range(4)),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
        num_generations_eval=2,
    )
    trainer.train()
    folder = Path(trainer.args.output_dir) / "completions"
    names = sorted(file.name for file in folder.iterdir())
    of_training = [f"completions_{s:05d}.parquet" for s in (1, 2) if s % logging_steps == 0]
    of_evaluation = [f"completions_{s:05d}_eval.parquet" for s in (1, 2)]
    assert names == sorted(of_training + of_evaluation)
    for name in of_training:
        table = pd.read_parquet(folder / name)
        assert table["kept"].sum() == 8
        assert len(table) == 2 * N


def test_rewards_that_differ_by_function_alone_are_selected_by_and_are_no_empty_step(
    make_trainer, caplog
):
    """SkyRL#2104: the raw sums of a group are all equal, and the normalised ones are not."""

    def two(completions: list[Any], **kwargs: Any) -> list[float]:
        return [2.0 * (i % 4 == 0) for i in range(len(completions))]

    def one(completions: list[Any], **kwargs: Any) -> list[float]:
        return [float(i % 4 in (1, 2)) for i in range(len(completions))]

    def rest(completions: list[Any], **kwargs: Any) -> list[float]:
        return [[0.0, 1.0, 1.0, 2.0][i % 4] for i in range(len(completions))]

    aggregation = {"multi_objective_aggregation": "normalize_then_sum"}
    functions = [two, one, rest]
    fields = {"reward_funcs": functions, "max_steps": 1, **aggregation}
    trainer = trained(make_trainer, N, "ours", **fields)
    theirs = trained(make_trainer, None, "theirs", **fields)

    (metrics,) = logged(trainer)
    assert metrics["frac_reward_zero_std"] == logged(theirs)[0]["frac_reward_zero_std"] == 0
    assert metrics["grad_norm"] > 0
    assert not [r for r in caplog.records if "teaches nothing" in r.message]

    # [2, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 2] normalised over the group and summed
    parts = np.array([[2.0, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 2]] * 4)
    sums = ((parts - parts.mean(axis=0)) / parts.std(axis=0, ddof=1)).sum(axis=1)
    table = table_of(trainer)
    for kept_N in table["kept"].to_numpy().reshape(2, N):
        assert sums[kept_N].max() == sums.max()
        assert sums[kept_N].min() == sums.min()


@pytest.mark.parametrize(
    "functions",
    [([1.0, 0.0], [0.0, 1.0]), ([3.0, 0.0], [0.0, 3.0]), ([1.0, 0.5, 0.0], [0.0, 0.5, 1.0])],
)
def test_where_the_normalised_sums_are_equal_too_it_is_said(make_trainer, caplog, functions):
    def function_of(values: list[float], name: str) -> Any:
        def score(completions: list[Any], **kwargs: Any) -> list[float]:
            return [values[i % len(values)] for i in range(len(completions))]

        score.__name__ = name
        return score

    first, second = (function_of(v, n) for v, n in zip(functions, ("a", "b"), strict=True))
    make_trainer(
        12,
        reward_funcs=[first, second],
        multi_objective_aggregation="normalize_then_sum",
        max_steps=1,
    ).train()
    assert [r for r in caplog.records if "this step teaches nothing" in r.message]


def test_where_every_answer_is_taken_for_cut_off_it_is_told_and_why(make_trainer, caplog):
    """TRL#7039, open-r1#271: an answer that ends by another token, or by a stop string."""
    trainer = make_trainer(
        2 * M,
        reward_funcs=form,
        mask_truncated_completions=True,
        max_completion_length=4,
        max_steps=3,
    )
    before = weights(trainer)
    trainer.train()
    assert equal(before, weights(trainer))
    (said,) = [r.message for r in caplog.records if "left out all kept rows" in r.message]
    assert said.startswith("step 1: mask_truncated_completions left out all kept rows")
    assert "Here the last tokens are " in said
    assert not [r for r in caplog.records if "teaches nothing" in r.message]


def test_the_log_says_which_method_a_run_was(make_trainer):
    trainer = make_trainer(N, method="cppo", max_steps=1)
    trainer.train()
    run = trainer.pods.recorder.run
    assert run.config()["arm"] == "cppo"
    assert run.finished()["arm"] == "cppo"


def test_texts_that_a_subclass_changes_are_those_that_are_logged(make_trainer):
    trainer = make_trainer(N, mixin=LongerTexts, max_steps=1)
    trainer.train()
    assert table_of(trainer)["completion"].str.endswith("777").all()
