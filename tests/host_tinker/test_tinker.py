"""podsrl.tinker with the real tinker-cookbook, and a stand-in for the service."""

import asyncio
import inspect
import math
import sys
from pathlib import Path

import pytest

pytest.importorskip("tinker_cookbook", reason="tinker-cookbook is missing; run `nox -s tinker`")

import tinker
import torch
from service import Service
from tinker_cookbook import renderers
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import podsrl
from podsrl.errors import InvalidInputError
from podsrl.tinker import select_trajectories
from support.host_suite import REWARDS, HostSuite, SeenStep

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import tinker_loop


def trajectory(reward, tokens=(7, 8), prompt=(1, 2, 3)):
    """One answer of two tokens."""
    action = TokensWithLogprobs(list(tokens), [-0.5] * len(tokens))
    transition = Transition(
        ob=tinker.ModelInput.from_ints(list(prompt)), ac=action, reward=reward, episode_done=True
    )
    return Trajectory([transition], final_ob=tinker.ModelInput.empty())


def groups_of(rewards, metrics=None):
    """Groups of trajectories; each rollout's first token is its place."""
    groups = []
    for group in rewards:
        trajectories = [trajectory(reward, (place, 50)) for place, reward in enumerate(group)]
        groups.append(TrajectoryGroup(trajectories, [0.0] * len(group), [{} for _ in group]))
    return groups


class TestTinker(HostSuite):
    spares_passes = True
    scale = False

    def step(self, rewards, m, rule="max_variance", baseline="kept"):
        groups = groups_of(rewards)
        for number, group in enumerate(groups):  # to know it again, whatever was left out
            for made in group.metrics_G:
                made["group"] = number
        selection = podsrl.Selection(len(rewards[0]), m, rule, baseline)
        every = select_trajectories(groups, selection, skip_zero_advantage=False)
        rows_out = [{} for _ in rewards]
        for group, advantages in zip(every.trajectory_groups_P, every.advantages_P, strict=True):
            for made, of_group, advantage in zip(
                group.trajectories_G, group.metrics_G, advantages.tolist(), strict=True
            ):
                place = made.transitions[0].ac.tokens[0]
                rows_out[of_group["group"]][place] = advantage

        trained = select_trajectories(groups, selection)
        data, _ = assemble_training_data(trained.trajectory_groups_P, trained.advantages_P)
        return SeenStep(rows_out=rows_out, passes=len(data), logged=trained.metrics)


def test_what_we_stand_between_is_as_we_know_it():
    """tinker-cookbook pins these two in its own tests/downstream_compat."""
    assert list(inspect.signature(compute_advantages).parameters) == ["trajectory_groups_P"]
    found = list(inspect.signature(assemble_training_data).parameters)
    assert found[:2] == ["trajectory_groups_P", "advantages_P"]
    fields = list(inspect.signature(TrajectoryGroup).parameters)
    assert fields[:3] == ["trajectories_G", "final_rewards_G", "metrics_G"]


def test_where_all_are_kept_advantages_are_those_of_the_cookbook():
    groups = groups_of(REWARDS)
    ours = select_trajectories(groups, podsrl.Selection(8, 8), skip_zero_advantage=False)
    for found, expected in zip(ours.advantages_P, compute_advantages(groups), strict=True):
        torch.testing.assert_close(found, expected)


def test_the_groups_that_were_given_are_not_changed_and_errors_of_rollouts_go_along():
    groups = groups_of(REWARDS)
    groups[0].rollout_errors.append("lost one")
    kept = select_trajectories(groups, podsrl.Selection(8, 2))
    assert [len(group.trajectories_G) for group in groups] == [8] * 4
    assert [len(group.trajectories_G) for group in kept.trajectory_groups_P] == [2, 2, 2]
    assert kept.trajectory_groups_P[0].rollout_errors == ["lost one"]
    assert kept.metrics["pods/kept_tokens"] == 4 * 2 * 5  # prompts of 3, answers of 2


def test_final_rewards_of_the_group_count_and_its_metrics_select():
    groups = groups_of([[0.0] * 4])
    groups[0].final_rewards_G[:] = [0.0, 0.2, 0.9, 0.4]
    kept = select_trajectories(groups, podsrl.Selection(4, 2))
    assert kept.advantages_P[0].tolist() == pytest.approx([-0.45, 0.45])

    for made, right in zip(groups[0].metrics_G, (1.0, 1.0, 1.0, 0.0), strict=True):
        made["right"] = right
    by_part = podsrl.Selection(4, 2, selection_weights={"right": 1.0}, seed=0)
    kept = select_trajectories(groups, by_part)
    assert 3 in [t.transitions[0].ac.tokens[0] for t in kept.trajectory_groups_P[0].trajectories_G]
    with pytest.raises(InvalidInputError, match="wrong"):
        select_trajectories(groups, podsrl.Selection(4, 2, selection_weights={"wrong": 1.0}))


def test_nothing_is_left_where_no_rewards_differ():
    kept = select_trajectories(groups_of([[1.0] * 4, [math.nan] * 4]), podsrl.Selection(4, 2))
    assert (kept.trajectory_groups_P, kept.advantages_P) == ([], [])
    assert kept.metrics["pods/zero_variance_groups"] == 2


@pytest.fixture(scope="module")
def tokenizer():
    """A tokenizer of 256 bytes."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate([*symbols, "<end>"])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")


class SaySeven(tinker_loop.Problem):
    """Right where the answer is 7; with answer "any", whatever it is."""

    def check_answer(self, sample_str):
        return self.answer == "any" or self.answer in sample_str


def run_example(tokenizer, steps, **select):
    """The example's loop on the stand-in: per step three prompts, of which one is always right."""
    renderer = renderers.get_renderer("role_colon", tokenizer)
    digits = tokenizer.convert_tokens_to_ids(list("0123456789"))
    service = Service(len(tokenizer), digits)

    def builder(answer):
        return ProblemGroupBuilder(lambda: SaySeven(renderer, "Say it.", answer), 32)

    async def collect():
        batches = [[builder("7"), builder("any"), builder("7")]] * steps
        loop = tinker_loop.train(service, batches, learning_rate=0.3, max_tokens=1)
        return [metrics async for metrics in loop]

    return service, asyncio.run(collect()), digits


def test_the_example_trains_on_the_kept_rows_that_differ_and_pays_for_no_other(tokenizer):
    service, logged, digits = run_example(tokenizer, steps=12)
    for metrics in logged:
        assert metrics["pods/rollouts"] == 3 * 32
        assert metrics["pods/kept_rollouts"] == 3 * 8
        # half of each kept group is right where 4 to 28 of 32 are; "any" is always right
        assert metrics["rows"] <= 2 * 8
    assert logged[0]["rows"] == service.trained_rows[0] > 0
    assert logged[0]["pods/zero_variance_groups"] >= 1

    [colon] = tokenizer.convert_tokens_to_ids([":"])
    shares = service.model(torch.tensor(colon)).detach().exp()
    assert shares[digits[7]] > 0.5  # 0.1 before
    assert shares[digits].sum() == pytest.approx(1.0, abs=1e-4)


def test_rows_of_advantage_0_would_change_no_weight(tokenizer, monkeypatch):
    spared, _, _ = run_example(tokenizer, steps=3)
    select = tinker_loop.select_trajectories

    def every_kept_row(*args, **options):
        return select(*args, **options, skip_zero_advantage=False)

    monkeypatch.setattr(tinker_loop, "select_trajectories", every_kept_row)
    full, _, _ = run_example(tokenizer, steps=3)
    assert sum(full.trained_rows) == 3 * 24 > sum(spared.trained_rows)
    torch.testing.assert_close(full.model.logits, spared.model.logits, atol=1e-6, rtol=0)


def test_the_groups_are_those_that_do_group_rollout_makes(tokenizer):
    renderer = renderers.get_renderer("role_colon", tokenizer)
    builder = ProblemGroupBuilder(lambda: SaySeven(renderer, "Say it.", "7"), 4)
    places = iter(range(4))

    async def policy(model_input, stop, **more):
        text = "7" if next(places) % 2 else "8"
        return TokensWithLogprobs(tokenizer.encode(text), [-1.0])

    group = asyncio.run(do_group_rollout(builder, policy))
    kept = select_trajectories([group], podsrl.Selection(4, 2))
    assert sorted(kept.advantages_P[0].tolist()) == [-0.5, 0.5]


def test_the_example_takes_thousands_with_and_without_a_comma():
    problem = tinker_loop.Problem(None, "How many?", "1 000 + 80 = 1 080\n#### 1,080")
    assert problem.check_answer("so \\boxed{1080}")
    assert problem.check_answer("so \\boxed{1,080}")
    assert not problem.check_answer("so \\boxed{108}")


def test_the_example_is_short_and_marks_its_two_lines():
    lines = Path(tinker_loop.__file__).read_text("utf-8").splitlines()
    assert len(lines) <= 80
    assert sum(line.endswith("  #") for line in lines) == 2
