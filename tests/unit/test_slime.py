"""The two functions for slime and miles, on objects of the shape that their sources describe.

Neither can be installed here: both need GPUs, Megatron and SGLang.
"""

import itertools
import math
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from podsrl import group_advantages
from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.slime import post_process_rewards, select_rollouts
from support.brute_force import highest_variance
from support.host_suite import HostSuite, SeenStep

N, M, PROMPTS = 8, 4, 3


@dataclass
class Sample:
    """The part of slime.utils.types.Sample that is used."""

    group_index: int
    index: int
    reward: float | dict[str, Any] | None = None
    metadata: dict = field(default_factory=dict)
    remove_sample: bool = False

    def get_reward_value(self, args):
        return self.reward if not args.reward_key else self.reward[args.reward_key]


def test_a_sample_that_the_loss_leaves_out_is_kept_last():
    # slime#961: of [1 (removed), 0, 1, 0] the live 1 has to stay, or nothing is left to compare
    group = [Sample(0, rollout, reward=reward) for rollout, reward in enumerate([1.0, 0, 1.0, 0])]
    group[0].remove_sample = True
    data = [group]
    select_rollouts(arguments({"m": 2}, n_samples_per_prompt=4, global_batch_size=6), data)
    assert [sample.index for sample in data[0]] == [1, 2]


@pytest.mark.parametrize(
    ("rewards", "removed", "kept_of"),
    [
        ([1.0, 1.0, 0.0, 0.0], {0, 1}, {2, 3}),  # only wrong ones count: both are kept
        ([1.0, 0.5, 0.0, 0.2], {0, 2}, {1, 3}),
        ([1.0, 0.0, 1.0, 0.0], {0, 1, 2}, {0, 3}),  # one is left: it is filled up by the first
        ([1.0, 0.0, 0.5, 0.5], set(), {0, 1}),
    ],
)
def test_of_what_is_left_the_variance_is_largest(rewards, removed, kept_of):
    group = [Sample(0, rollout, reward=reward) for rollout, reward in enumerate(rewards)]
    for rollout in removed:
        group[rollout].remove_sample = True
    data = [group]
    select_rollouts(arguments({"m": 2}, n_samples_per_prompt=4, global_batch_size=6), data)
    assert {sample.index for sample in data[0]} == kept_of


def arguments(pods, **changed):
    """slime's own defaults where it has them."""
    given = {
        "n_samples_per_prompt": N,
        "rollout_batch_size": PROMPTS,
        "global_batch_size": PROMPTS * M,
        "advantage_estimator": "grpo",
        "rewards_normalization": True,
        "grpo_std_normalization": True,
        "reward_key": None,
        "pods": pods,
    }
    return Namespace(**(given | changed))


def groups(seed=0):
    """Samples of `PROMPTS` prompts, numbered through, with rewards of 0, 0.1, ... 1."""
    draw = np.random.default_rng(seed)
    data = []
    for prompt in range(PROMPTS):
        group = []
        for rollout in range(N):
            reward = float(draw.integers(0, 11)) / 10
            group.append(Sample(prompt, prompt * N + rollout, reward=reward))
        data.append(group)
    return data


def rewards_of(data):
    """The rewards of each group."""
    return [[sample.reward for sample in group] for group in data]


def flat(data):
    """The samples of all groups in a row, as slime holds them when it asks for advantages."""
    return list(itertools.chain.from_iterable(data))


def test_dropped_samples_leave_the_batch_and_the_kept_vary_most():
    data = groups()
    every = list(data)  # slime gives these lists to --rollout-all-samples-process-path
    before = rewards_of(data)
    assert select_rollouts(arguments({"m": M}), data) is None
    assert rewards_of(every) == before
    for kept, of_group in zip(rewards_of(data), before, strict=True):
        assert len(kept) == M
        assert np.var(kept) == pytest.approx(highest_variance(of_group, M))


@pytest.mark.parametrize("estimator", ["grpo", "gspo", "cispo"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("baseline", ["kept", "group"])
def test_rewards_become_the_advantages_within_each_group(baseline, scale, estimator):
    data = groups()
    before = rewards_of(data)
    args = arguments(
        {"m": M, "baseline": baseline},
        grpo_std_normalization=scale,
        advantage_estimator=estimator,
    )
    select_rollouts(args, data)
    raw, processed = post_process_rewards(args, flat(data))
    assert raw == [sample.reward for sample in flat(data)]

    expected = []
    for prompt, group in enumerate(data):
        kept = [sample.index - prompt * N for sample in group]
        expected += list(group_advantages(before[prompt], kept, baseline, scale, eps=1e-6))
    assert processed == pytest.approx(expected)


def test_without_normalisation_rewards_are_left_as_they_are():
    for changed in ({"rewards_normalization": False}, {"advantage_estimator": "ppo"}):
        data = groups()
        args = arguments({"m": M}, **changed)
        select_rollouts(args, data)
        samples = flat(data)
        raw, processed = post_process_rewards(args, samples)
        assert processed == raw == [sample.reward for sample in samples]


def test_reinforce_plus_plus_baseline_is_centred_but_not_scaled():
    data = groups()
    args = arguments({"m": M}, advantage_estimator="reinforce_plus_plus_baseline")
    select_rollouts(args, data)
    _, processed = post_process_rewards(args, data[0])
    rewards = [sample.reward for sample in data[0]]
    assert processed == pytest.approx([reward - np.mean(rewards) for reward in rewards])


@pytest.mark.parametrize("how", ["aborted", "flagged"])
def test_a_sample_without_a_reward_is_kept_last_and_has_advantage_0(how):
    data = groups()
    for sample in data[0][:6]:
        if how == "aborted":
            sample.reward = None
        else:
            sample.reward = 0.0
            sample.metadata["unscorable"] = True

    args = arguments({"m": M})
    select_rollouts(args, data)
    assert [sample.index for sample in data[0]] == [0, 1, 6, 7]

    raw, processed = post_process_rewards(args, data[0])
    assert raw[:2] == processed[:2] == [0.0, 0.0]
    assert not any(math.isnan(advantage) for advantage in processed)
    assert [sample.reward for sample in data[0][:2]] == [0.0, 0.0]  # slime's metrics round it


def test_advantages_over_the_group_are_not_centred_again():
    """slime would subtract the batch's mean, and push down rows that teach nothing."""
    given = {"m": 1, "rule": "max_reward", "baseline": "group"}
    size = {"global_batch_size": PROMPTS}
    with pytest.raises(UnsupportedError, match="--normalize-advantages"):
        select_rollouts(arguments(given, normalize_advantages=True, **size), groups())
    for raw in ({"advantage_estimator": "ppo"}, {"rewards_normalization": False}):
        with pytest.raises(UnsupportedError, match="needs --advantage-estimator grpo or"):
            select_rollouts(arguments(given, **raw, **size), groups())
    data = groups()
    select_rollouts(arguments(given, normalize_advantages=False, **size), data)
    assert [len(group) for group in data] == [1] * PROMPTS


def test_a_sample_without_a_reward_never_reaches_a_trainer_that_takes_raw_rewards():
    data = groups()
    for sample in data[0]:
        sample.reward = None
    for given in ({"advantage_estimator": "ppo"}, {"rewards_normalization": False}):
        args = arguments({"m": M}, **given)
        with pytest.raises(UnsupportedError, match="a kept rollout could not be scored"):
            post_process_rewards(args, data[0])
        rewards = [sample.reward for sample in data[1]]
        assert post_process_rewards(args, data[1]) == (rewards, rewards)


def test_the_reward_of_a_dict_is_found_by_slimes_reward_key():
    data = groups()
    for sample in itertools.chain(*data):
        sample.reward = {"score": sample.reward, "other": 5.0}
    select_rollouts(arguments({"m": M}, reward_key="score"), data)
    assert len(data[0]) == M
    assert len({sample.reward["score"] for sample in data[0]}) > 1


def test_a_sample_whose_dict_has_no_value_is_unscorable():
    data = groups()
    for group in data:
        for sample in group:
            sample.reward = {"score": sample.reward}
    data[0][0].reward = {"score": None}
    for sample in data[1]:
        sample.reward = {"score": None, "other": 5.0}
    select_rollouts(arguments({"m": M}, reward_key="score"), data)
    assert all(sample.reward["score"] is not None for group in data for sample in group)
    assert [sample.reward for sample in data[1]] == [{"score": 0.0, "other": 5.0}] * M
    assert all(sample.metadata["unscorable"] for sample in data[1])


def test_the_log_says_what_the_update_sees_and_the_reward_of_all(caplog):
    data = groups()
    mean = np.mean([sample.reward for group in data for sample in group])
    with caplog.at_level("INFO", logger="podsrl.slime"):
        select_rollouts(arguments({"m": M}), data)
    assert caplog.messages == [
        "method pods: selected 4 of 8 in 3 groups; the update sees 12 rows;"
        f" mean reward of all 24: {mean:.4f}"
    ]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_batch_size_that_divides_the_kept_rows_is_accepted(steps):
    args = arguments({"m": M}, global_batch_size=PROMPTS * M // steps)
    data = groups()
    select_rollouts(args, data)
    # slime takes `steps` whole batches of the flattened groups, and nothing is left over
    assert [len(group) for group in data] == [M] * PROMPTS
    assert sum(map(len, data)) == steps * args.global_batch_size


@pytest.mark.parametrize("size", [PROMPTS * N, 5, None])
def test_a_batch_size_of_which_slime_would_cut_off_rows_is_refused(size):
    with pytest.raises(InvalidInputError, match=r"--global-batch-size 12 for one step"):
        select_rollouts(arguments({"m": M}, global_batch_size=size), groups())


def test_slimes_dynamic_batch_size_needs_no_number():
    args = arguments({"m": M}, global_batch_size=None, use_dynamic_global_batch_size=True)
    data = groups()
    checked = groups()
    select_rollouts(args, data)
    select_rollouts(arguments({"m": M}), checked)
    assert data == checked
    args.use_dynamic_global_batch_size = False
    with pytest.raises(InvalidInputError, match="--global-batch-size"):
        select_rollouts(args, groups())


def test_a_seed_draws_anew_in_every_rollout_and_the_same_once_more():
    def places(first):
        """Of a rollout step; slime numbers groups on from one to the next."""
        data = groups()
        for group in data:
            for sample in group:
                sample.group_index += first
        select_rollouts(arguments({"m": M, "rule": "random", "seed": 1}), data)
        return [[sample.index for sample in group] for group in data]

    steps = [places(PROMPTS * step) for step in range(4)]
    assert len({str(step) for step in steps}) == 4
    assert places(PROMPTS) == steps[1]
    data = groups()
    for sample in itertools.chain(*data):
        sample.group_index = None  # as of a rollout function of one's own
    select_rollouts(arguments({"m": M, "seed": 1}), data)
    assert [len(group) for group in data] == [M] * PROMPTS


def test_missing_or_unknown_options_are_refused():
    with pytest.raises(InvalidInputError, match="--custom-config-path"):
        select_rollouts(arguments(None), groups())
    says = r"unknown: pods\.keep; allowed: pods\.method, pods\.m, "
    with pytest.raises(InvalidInputError, match=says):
        select_rollouts(arguments({"m": M, "keep": 3}), groups())
    with pytest.raises(InvalidInputError, match=r"pods\.m=9 .* of --n-samples-per-prompt=8"):
        select_rollouts(arguments({"m": 9}), groups())


def test_what_another_host_can_spare_is_unknown_here():
    with pytest.raises(InvalidInputError, match=r"unknown: pods\.skip_zero_advantage; allowed: "):
        select_rollouts(arguments({"m": M, "skip_zero_advantage": True}), groups())


def test_a_rollout_of_several_samples_is_refused():
    data = groups()
    data[0][0] = [data[0][0], data[0][0]]
    with pytest.raises(UnsupportedError, match="several samples for one rollout"):
        select_rollouts(arguments({"m": M}), data)


def test_rewards_without_a_selection_are_refused():
    """slime's own normalisation of a changed count would take the whole batch for one group."""
    with pytest.raises(InvalidInputError, match="--rollout-sample-filter-path"):
        post_process_rewards(arguments({"m": M}), groups()[0])


def composite_samples():
    """Rewards in dictionaries: the score, the answer in it and the form."""
    draw = np.random.default_rng(0)
    data = groups()
    for sample in itertools.chain(*data):
        answer = draw.random() < 0.5
        form = draw.random() < 0.3
        sample.reward = {"score": answer + 0.2 * form, "answer": float(answer), "form": float(form)}
    return data


def test_selected_by_the_answer_both_kinds_are_kept_and_the_update_still_sees_the_form():
    data = composite_samples()

    def right_answers():
        return [sum(sample.reward["answer"] for sample in group) for group in data]

    before = right_answers()
    weights = {"answer": 1.0}
    args = arguments({"m": M, "selection_weights": weights}, reward_key="score")
    select_rollouts(args, data)
    assert right_answers() == [min(2, of_all) for of_all in before]
    raw, _ = post_process_rewards(args, flat(data))
    assert raw == [sample.reward["score"] for sample in flat(data)]

    unknown = arguments({"m": M, "selection_weights": {"acc": 1.0}}, reward_key="score")
    with pytest.raises(InvalidInputError, match="it gave: score, answer, form"):
        select_rollouts(unknown, composite_samples())


ACROSS = {"rule": "max_contrast"}


def test_with_a_mean_of_one_row_prompts_with_contrast_get_two(caplog):
    data = groups()[:2]
    for group, rewards in zip(data, ([0.0] * N, [1.0] + [0.0] * (N - 1)), strict=True):
        for sample, reward in zip(group, rewards, strict=True):
            sample.reward = reward
    args = arguments({"m": 1, **ACROSS}, rollout_batch_size=2, global_batch_size=2)
    with caplog.at_level("INFO", logger="podsrl.slime"):
        select_rollouts(args, data)
    assert (
        "method custom: selected 1 of 8 on average in 2 groups; the update sees 2 rows"
        in caplog.text
    )
    assert [len(group) for group in data] == [0, 2]
    assert sorted(post_process_rewards(args, data[1])[0]) == [0.0, 1.0]
    with pytest.raises(InvalidInputError, match=r"2 kept rows .* m = 1\), .* 2 for one step"):
        select_rollouts(arguments({"m": 1, **ACROSS}, rollout_batch_size=2), groups())


def test_across_the_batch_rows_go_to_the_prompts_with_contrast():
    data = groups()
    for sample in data[1]:
        sample.reward = 1.0
    args = arguments({"m": M, **ACROSS})
    select_rollouts(args, data)
    assert len(data[1]) == 0
    assert len(flat(data)) == PROMPTS * M

    expected = []
    for rewards in rewards_of([data[0], data[2]]):
        expected += list(group_advantages(rewards, list(range(len(rewards))), eps=1e-6))
    _, advantages = post_process_rewards(args, flat(data))
    assert advantages == pytest.approx(expected)


@pytest.mark.parametrize("reward", [math.inf, -math.inf])
def test_an_infinite_reward_is_refused_also_where_a_part_of_it_selects(reward):
    for weights in (None, {"answer": 1.0}):
        data = composite_samples()
        data[0][0].reward["score"] = reward
        given = {"m": M, "selection_weights": weights}
        with pytest.raises(InvalidInputError, match="infinite"):
            select_rollouts(arguments(given, reward_key="score"), data)


@dataclass
class MilesSample:
    """The part of miles.utils.types.Sample that is used, by miles or by podsrl."""

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    reward: float | dict[str, Any] | None = None
    remove_sample: bool = False
    metadata: dict = field(default_factory=dict)

    def get_reward_value(self, args):
        return self.reward if not args.reward_key else self.reward[args.reward_key]


def finish_of_slime(data):
    """slime hands over the groups of its step as they are."""
    return data


def finish_of_miles(data):
    """miles, fully asynchronous, gets groups as they end, and sorts them by their first sample."""
    as_they_end = [*data[1:], data[0]]
    return sorted(as_they_end, key=lambda group: group[0].index)


class StepOfCommandLine(HostSuite):
    """The way from generated groups to advantages: filter, flat list, rewards of it."""

    spares_passes = False
    sample_type: type
    defaults: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def listen(self, caplog):
        caplog.set_level("INFO", logger="podsrl.slime")
        self.log = caplog

    def step(self, rewards, **pods):
        args = arguments(
            pods,
            rollout_batch_size=len(rewards),
            global_batch_size=len(rewards) * pods["m"],
            **self.defaults,
        )
        n = len(rewards[0])
        generated = []
        for prompt, group in enumerate(rewards):
            row = []
            for place, reward in enumerate(group):
                index = prompt * n + place
                row.append(self.sample_type(group_index=prompt, index=index, reward=reward))
            generated.append(row)

        for sample in flat(generated):
            if math.isnan(sample.reward):  # how both say that generating was aborted
                sample.reward = None
        data = type(self).finish(generated)
        select_rollouts(args, data)
        samples = flat(data)
        _, advantages = post_process_rewards(args, samples)

        rows_out = [{} for _ in rewards]
        for sample, advantage in zip(samples, advantages, strict=True):
            rows_out[sample.group_index][sample.index % n] = advantage
        said = "\n".join(record.getMessage() for record in self.log.records)
        return SeenStep(rows_out=rows_out, passes=len(samples), logged=said)


class TestSlime(StepOfCommandLine):
    sample_type = Sample
    finish = staticmethod(finish_of_slime)


class TestMiles(StepOfCommandLine):
    sample_type = MilesSample
    defaults: ClassVar[dict[str, Any]] = {
        "multi_lora": False,
        "use_dynamic_global_batch_size": False,
    }
    finish = staticmethod(finish_of_miles)


def test_several_adapters_in_one_batch_of_miles_are_refused():
    with pytest.raises(UnsupportedError, match="--multi-lora"):
        select_rollouts(arguments({"m": M}, multi_lora=True), groups())


def test_siblings_of_one_rollout_of_miles_are_refused():
    """A generate function of miles may return a list with one rollout_id."""
    siblings = [MilesSample(0, index, rollout_id=0, reward=1.0) for index in range(2)]
    with pytest.raises(UnsupportedError, match="several samples for one rollout"):
        select_rollouts(arguments({"m": M}), [[siblings, *siblings]])


def test_a_group_whose_samples_a_filter_took_out_stays_empty_and_the_others_are_selected():
    data = groups()
    data[0] = []
    select_rollouts(arguments({"m": M}), data)
    assert [len(group) for group in data] == [0, M, M]

    empty = []
    select_rollouts(arguments({"m": M}), empty)
    assert empty == []
