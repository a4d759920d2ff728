"""Rollouts in rounds: prompts whose choice is decided are left out, and the update stays fair."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("trl")

import trl
from packaging.version import Version

import podsrl
from podsrl.errors import InvalidInputError, RewardError, UnsupportedError
from podsrl.trl import PODSConfig, down_sampling
from podsrl.trl.exchange import Exchange
from support.agent_scenarios import turns
from support.agents import agent_trainer, call, questions, square, vision_model
from support.trl_runs import equal, logged, straight_and_resumed, table_of, weights

N = 16
M = 4

of_stand_in = pytest.mark.skipif(
    Version(trl.__version__) < Version("1.12"),
    reason="the stand-in is for TRL 1.12 or later",
)


class KnownRewards:
    """Rewards that are decided by the prompt and by how many rollouts of it came before.

    The first prompt of a step is easy, the second one hopeless, so that one is decided early and
    the other one never.
    """

    __name__ = "known"

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.seen: Counter[str] = Counter()
        self.names: list[str] = []

    def __call__(self, prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        self.calls.append(len(completions))
        rewards = []
        for prompt in prompts:
            name = str(prompt)
            if name not in self.names:
                self.names.append(name)
            rewards.append(self.reward_of(self.names.index(name), self.seen[name]))
            self.seen[name] += 1
        return rewards

    def reward_of(self, prompt: int, number: int) -> float:
        if prompt % 2:
            return 0.0
        return float(number in (1, 3, 4, 6, 9))  # two right ones of the first four


def trained(make_trainer: Callable[..., Any], name: str, **fields: Any) -> tuple[Any, KnownRewards]:
    rewards = KnownRewards()
    trainer = make_trainer(N, name, reward_funcs=rewards, **{"max_steps": 1, **fields})
    trainer.train()
    return trainer, rewards


def test_a_decided_prompt_is_left_out_and_the_same_rewards_are_kept(
    make_trainer: Callable[..., Any],
) -> None:
    at_once, _ = trained(make_trainer, "at once")
    in_rounds, rewards = trained(make_trainer, "rounds", rollouts_per_round=M)

    # Both prompts in the first round, then the hopeless one.
    assert rewards.calls == [2 * M, M, M, M]
    whole = table_of(at_once)
    part = table_of(in_rounds)
    assert part.groupby("group").size().tolist() == [M, N]
    assert part["round"].tolist() == [0] * M + sorted([0, 1, 2, 3] * M)
    assert "round" not in whole
    for table in (whole, part):
        kept = table[table["kept"]].groupby("group")["reward"].apply(sorted)
        assert kept.tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]

    # The advantages are those of the kept ones.
    first = part[part["kept"] & (part["group"] == 0)]
    expected = podsrl.group_advantages([first["reward"].tolist()], [[0, 1, 2, 3]])[0]
    assert first["advantage"].tolist() == pytest.approx(expected, abs=1e-5)


def test_metrics_of_progress_are_those_of_the_first_round(
    make_trainer: Callable[..., Any],
) -> None:
    trainer, _ = trained(make_trainer, "run", rollouts_per_round=M, log_completions=True)
    (metrics,) = logged(trainer)
    assert metrics["reward"] == pytest.approx(2 / 8)  # of all that was generated it is 2 / 20
    assert metrics["rewards/known/mean"] == pytest.approx(2 / 8)
    assert metrics["pods/rounds"] == 4
    assert metrics["pods/generated_share"] == (M + N) / (2 * N)
    assert metrics["pods/rollouts"] == M + N
    assert metrics["pods/rollouts_generated"] == M + N
    table = table_of(trainer)
    assert metrics["pods/tokens_generated"] == metrics["num_tokens"]

    first = table[table["round"] == 0]
    assert metrics["completions/mean_length"] == pytest.approx(first["tokens"].mean())
    assert len(trainer.pods.completions["extra"]["kept"]) == M + N


def test_metrics_of_ones_own_are_logged_for_every_round(make_trainer: Callable[..., Any]) -> None:
    class Counts:
        def _calculate_rewards(self, *args: Any) -> Any:
            self._metrics["train"]["scored"].append(float(len(args[0])))  # type: ignore[attr-defined]
            return super()._calculate_rewards(*args)  # type: ignore[misc]

    trainer, rewards = trained(make_trainer, "run", rollouts_per_round=M, mixin=Counts)
    assert rewards.calls == [2 * M, M, M, M]
    assert logged(trainer)[0]["scored"] == pytest.approx(sum(rewards.calls) / 4)


def test_reinforce_ada_compares_with_all_that_its_rounds_made(
    make_trainer: Callable[..., Any],
) -> None:
    trainer, rewards = trained(
        make_trainer, "run", method="reinforce-ada", rollouts_per_round=M, num_generations=M
    )
    assert rewards.calls == [2 * M, M, M, M]
    table = table_of(trainer)
    first = table[table["group"] == 0]
    assert first["reward"].tolist() == [0, 1, 0, 1]
    expected = podsrl.group_advantages([[0.0, 1.0, 0.0, 1.0]], [[0, 1, 2, 3]], "group")[0]
    assert first["advantage"].tolist() == pytest.approx(expected, abs=1e-5)


def test_reinforce_ada_draws_again_where_right_ones_are_rare(
    make_trainer: Callable[..., Any],
) -> None:
    class Rare(KnownRewards):
        def reward_of(self, prompt: int, number: int) -> float:
            return float(number in (2, 5))

    rewards = Rare()
    trainer = make_trainer(
        N,
        method="reinforce-ada",
        rollouts_per_round=M,
        num_generations=M,
        reward_funcs=rewards,
        max_steps=1,
    )
    trainer.train()
    assert rewards.calls == [2 * M, 2 * M]
    table = table_of(trainer)
    first = table[table["group"] == 0]
    drawn = first["reward"].tolist()
    assert sorted(drawn) == [0] * 6 + [1] * 2
    kept = first[first["kept"]]
    expected = podsrl.group_advantages(drawn, kept["rollout"].tolist(), "group")
    assert kept["advantage"].tolist() == pytest.approx(expected, abs=1e-5)


def test_prompts_are_read_once_for_all_rounds(make_trainer: Callable[..., Any]) -> None:
    trainer = make_trainer(N, reward_funcs=KnownRewards(), rollouts_per_round=M, max_steps=2)
    tokens: list[tuple[int, ...]] = []
    trainer.model.get_input_embeddings().register_forward_hook(
        lambda module, args, output: tokens.append(tuple(args[0].shape))
    )
    generate = trainer._generate

    def generate_marked(prompts: Any) -> Any:
        tokens.append(())  # a round begins
        return generate(prompts)

    trainer._generate = generate_marked
    trainer.train()

    # Of each generation the first round reads two prompts; later ones go on with one token a row.
    after_mark = [now for before, now in itertools.pairwise(tokens) if before == ()]
    assert [rows for rows, _ in after_mark] == [2, M, M, M] * 2
    lengths = [length for _, length in after_mark]
    assert min(lengths[0], lengths[4]) > 1
    assert lengths[1:4] == lengths[5:] == [1, 1, 1]


def test_the_last_round_may_be_smaller(make_trainer: Callable[..., Any]) -> None:
    trainer, rewards = trained(make_trainer, "run", rollouts_per_round=6)
    assert rewards.calls == [12, 6, 4]
    assert sorted(table_of(trainer).groupby("group").size()) == [6, N]


def test_without_rounds_nothing_changes(make_trainer: Callable[..., Any]) -> None:
    plain, _ = trained(make_trainer, "plain")
    bounds, _ = trained(make_trainer, "bounds", reward_bounds=[-3.0, 3.0])
    assert equal(weights(plain), weights(bounds))
    assert "pods/rounds" not in logged(plain)[0]


def test_a_resumed_run_goes_on_with_its_rounds(make_trainer: Callable[..., Any]) -> None:
    straight, resumed = straight_and_resumed(
        make_trainer, N, rollouts_per_round=M, reward_funcs=odd_sum
    )
    assert equal(weights(straight), weights(resumed))
    for trainer in (straight, resumed):
        assert logged(trainer)[-1]["pods/generated_share"] < 1
    assert (
        logged(straight)[-1]["pods/rollouts_generated"]
        == logged(resumed)[-1]["pods/rollouts_generated"]
    )


def odd_sum(completions: list[Any], **columns: Any) -> list[float]:
    return [float(sum(map(ord, c[-1]["content"])) % 2) for c in completions]


def test_what_a_subclass_makes_of_rewards_decides(make_trainer: Callable[..., Any]) -> None:
    class Reversed:
        def _calculate_rewards(self, *args: Any) -> Any:
            return 1 - super()._calculate_rewards(*args)  # type: ignore[misc]

    # The hopeless prompt is now always right, and is still not decided.
    trainer, rewards = trained(make_trainer, "run", rollouts_per_round=M, mixin=Reversed)
    assert rewards.calls == [2 * M, M, M, M]
    assert logged(trainer)[0]["reward"] == pytest.approx(6 / 8)


def test_a_rollout_that_one_function_has_not_scored_decides_nothing(
    make_trainer: Callable[..., Any],
) -> None:
    """Another of its prompt may be scored later, and then this one is kept last."""

    def sometimes(completions: list[Any], **columns: Any) -> list[float | None]:
        return [None] * len(completions)

    rewards = KnownRewards()
    trainer = make_trainer(N, reward_funcs=[rewards, sometimes], rollouts_per_round=8, max_steps=1)
    trainer.train()
    assert rewards.calls == [16, 16]


def test_a_reward_beyond_the_bounds_is_an_error_that_says_so(
    make_trainer: Callable[..., Any],
) -> None:
    trainer = make_trainer(
        N, reward_funcs=KnownRewards(), rollouts_per_round=M, reward_bounds=[0.0, 0.5]
    )
    with pytest.raises(RewardError, match=r"reward_bounds=\[0.0, 0.5\], at step 1: a reward is 1"):
        trainer.train()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rollouts_per_round": 0}, "1 <= rollouts_per_round < num_rollouts = 16"),
        ({"rollouts_per_round": 16}, "1 <= rollouts_per_round < num_rollouts = 16"),
        ({"rollouts_per_round": 4.0}, "an integer"),
        ({"num_rollouts": 4, "rollouts_per_round": 2}, "every rollout is kept"),
        ({"advantage_baseline": "group"}, "another baseline"),
        ({"downsampling_rule": "percentile"}, "max_variance, max_reward, balanced"),
        ({"downsampling_rule": "max_contrast"}, "decided when all n are there"),
        ({"downsampling_rule": "dynamic_sampling"}, "prompts_per_round generates in rounds of"),
        ({"prompts_per_round": 1}, "prompts_per_round is set, too"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "has no bounds"),
        ({"reward_bounds": [1.0, 0.0]}, "the lower one first"),
        ({"reward_bounds": [0.0]}, "two numbers"),
        ({"reward_bounds": [0.0, math.nan]}, "two numbers"),
    ],
)
def test_rounds_are_refused_with_what_they_cannot_do(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    given = {
        "num_rollouts": N,
        "num_generations": M,
        "per_device_train_batch_size": 8,
        "rollouts_per_round": M,
        **fields,
    }
    with pytest.raises(InvalidInputError, match=message):
        PODSConfig(str(tmp_path), use_cpu=True, bf16=False, **given)


# ---- rounds of prompts: dynamic sampling

#: Eight prompts in a generation, of which two groups fill the batch.
DAPO = {
    "method": "dynamic-sampling",
    "num_generations": 2,
    "per_device_train_batch_size": 16,
    "prompts_per_round": 2,
}


class ContrastOf(KnownRewards):
    """Every second rollout of some prompts is right, and of the others none or all."""

    def __init__(self, *prompts: int) -> None:
        super().__init__()
        self.prompts = prompts

    def reward_of(self, prompt: int, number: int) -> float:
        return float(number % 2) if prompt in self.prompts else float(prompt % 2)


def train_by_dynamic_sampling(make_trainer: Callable[..., Any], *prompts: int) -> tuple[Any, Any]:
    rewards = ContrastOf(*prompts)
    trainer = make_trainer(8, reward_funcs=rewards, max_steps=1, **DAPO)
    trainer.train()
    return trainer, rewards


def test_dynamic_sampling_generates_until_the_batch_is_full(
    make_trainer: Callable[..., Any],
) -> None:
    trainer, rewards = train_by_dynamic_sampling(make_trainer, 1, 3)
    assert rewards.calls == [16, 16]

    # Of four rounds the first has the prompts 0 and 4, the second 1 and 5.
    table = table_of(trainer)
    assert table.groupby("group")["round"].unique().map(list).to_dict() == {
        0: [0],
        1: [1],
        4: [0],
        5: [1],
    }
    kept = table[table["kept"]]
    assert kept.groupby("group").size().to_dict() == {4: 8, 5: 8}
    assert kept["advantage"].abs().min() > 0.9

    (metrics,) = logged(trainer)
    assert metrics["pods/rounds"] == 2
    assert metrics["pods/generated_share"] == 0.5
    assert metrics["pods/rollouts_generated"] == 32
    assert metrics["pods/kept_rollouts"] == 16
    assert metrics["reward"] == pytest.approx(4 / 16)  # of the first round; of all 8 / 32
    assert metrics["frac_reward_zero_std"] == 0.5
    first = table[table["round"] == 0]
    assert metrics["completions/mean_length"] == pytest.approx(first["tokens"].mean())


def test_dynamic_sampling_ends_with_the_prompts_of_the_step(
    make_trainer: Callable[..., Any],
) -> None:
    """One group with contrast is missing: another one, of advantage 0, fills the batch."""
    trainer, rewards = train_by_dynamic_sampling(make_trainer, 6)
    assert rewards.calls == [16, 16, 16, 16]
    table = table_of(trainer)
    advantages = table[table["kept"]].groupby("group")["advantage"].apply(lambda a: a.abs().max())
    assert sorted(advantages > 0) == [False, True]
    assert logged(trainer)[0]["pods/generated_share"] == 1


def test_a_reward_may_compare_the_rollouts_of_a_group_that_is_whole(
    make_trainer: Callable[..., Any],
) -> None:
    def rank(completions: list[Any], num_rollouts: int, **columns: Any) -> list[float]:
        assert len(completions) % num_rollouts == 0
        return [i % num_rollouts / num_rollouts for i in range(len(completions))]

    trainer = make_trainer(8, reward_funcs=rank, max_steps=1, **DAPO)
    trainer.train()
    assert logged(trainer)[0]["pods/rounds"] == 1


def test_dynamic_sampling_in_rounds_resumes_to_the_bit(make_trainer: Callable[..., Any]) -> None:
    straight, resumed = straight_and_resumed(make_trainer, 8, reward_funcs=odd_sum, **DAPO)
    assert equal(weights(straight), weights(resumed))
    assert logged(resumed)[-1]["pods/generated_share"] < 1


@of_stand_in
def test_a_server_is_asked_for_whole_groups(make_trainer: Callable[..., Any], server: Any) -> None:
    trainer = make_trainer(
        8,
        reward_funcs=ContrastOf(1, 3),
        max_steps=1,
        use_vllm=True,
        vllm_mode="server",
        vllm_server_base_url=server.url,
        **DAPO,
    )
    trainer.train()
    assert [(len(request["prompt"]), request["n"]) for request in server.requests] == [(2, 8)] * 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompts_per_round": 0}, "1 <= prompts_per_round < 8"),
        ({"prompts_per_round": 8}, "1 <= prompts_per_round < 8"),
        ({"prompts_per_round": 2.0}, "an integer"),
        ({"method": "max_contrast", "num_generations": 2}, "allowed with dynamic_sampling"),
        ({"method": "pods"}, "allowed with dynamic_sampling"),
        ({"rollouts_per_round": 2}, "prompts_per_round is set, too"),
    ],
)
def test_rounds_of_prompts_are_refused_with_what_they_cannot_do(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    given = {"num_rollouts": 8, **DAPO, **fields}
    with pytest.raises(InvalidInputError, match=message):
        PODSConfig(str(tmp_path), use_cpu=True, bf16=False, **given)


# ---- environments and images; test_agents has all kinds of them where no prompt leaves


class Switch:
    """Its reward is 1 where it was switched on."""

    made: ClassVar[list["Switch"]] = []

    def __init__(self) -> None:
        type(self).made.append(self)

    def reset(self, **kwargs: Any) -> None:
        self.is_on = False
        self.played = 0

    def press(self, hard: int) -> str:
        """Press it.

        Args:
            hard: Whether hard enough, 0 or 1.

        Returns:
            How it is now.
        """
        self.played += 1
        self.is_on = bool(hard)
        return "on" if hard else "off"

    def get_reward(self) -> float:
        return float(self.is_on)


def press(read: str, row: int) -> str:
    """The first question is answered rightly by every second rollout, others by none."""
    if turns(read):
        return "done"
    return call("press", hard=int("question 0" in read and row % 2))


@pytest.fixture
def switches(monkeypatch: pytest.MonkeyPatch) -> type[Switch]:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    monkeypatch.setattr(Switch, "made", [])
    return Switch


def test_environments_that_a_decided_prompt_leaves_over_are_not_played(
    tmp_path: Path, switches: type[Switch]
) -> None:
    trainer = agent_trainer(
        2 * M,
        tmp_path,
        press,
        environment_factory=switches,
        train_dataset=questions(),
        rollouts_per_round=M,
        max_steps=1,
    )
    trainer.train()

    # Question 0 has two right ones of its first four, question 1 none of eight.
    assert table_of(trainer).groupby("group").size().tolist() == [M, 2 * M]
    played = [environment.played for environment in switches.made]
    assert played == [1] * M + [0] * M + [1] * 2 * M
    kept = [environment.is_on for environment in trainer.environments]
    assert kept == [False, True, False, True] + [False] * M


def test_environments_on_several_processes_are_refused_in_rounds(
    tmp_path: Path, switches: type[Switch], monkeypatch: pytest.MonkeyPatch
) -> None:
    class OfTwo(Exchange):
        """The trainer of the first of two processes, without the second."""

        def __init__(self, process: int, world: int, device: Any) -> None:
            super().__init__(process, 2, device)

    monkeypatch.setattr(down_sampling, "Exchange", OfTwo)
    with pytest.raises(UnsupportedError, match="rollouts_per_round works with environments on one"):
        agent_trainer(
            2 * M,
            tmp_path,
            press,
            environment_factory=switches,
            train_dataset=questions(),
            rollouts_per_round=M,
        )


def test_pictures_stay_with_their_prompts_where_one_has_left(tmp_path: Path) -> None:
    def reply(read: str, row: int) -> str:
        return "x" * (row % 2) if "question 0" in read else ""

    def odd(completions: list[Any], **columns: Any) -> list[float]:
        return [float(len(c[-1]["content"]) % 2) for c in completions]

    trainer = agent_trainer(
        2 * M,
        tmp_path,
        reply,
        model=vision_model,
        reward_funcs=[odd],
        train_dataset=questions(image=[square(20 * i) for i in range(8)]),
        rollouts_per_round=M,
        max_steps=1,
    )
    batches: list[dict[str, Any]] = []
    make_batch = trainer._generate_and_score_completions

    def remember(inputs: Any) -> Any:
        batches.append(make_batch(inputs))
        return batches[-1]

    trainer._generate_and_score_completions = remember
    trainer.train()

    assert table_of(trainer).groupby("group").size().tolist() == [M, 2 * M]
    (batch,) = batches
    assert batch["num_images"] == [1] * 2 * M
    pictures = [pixels.flatten().tolist() for pixels in batch["pixel_values"].chunk(2 * M)]
    assert [pictures.index(picture) for picture in pictures] == [0] * M + [M] * M


def test_own_rows_says_that_it_has_no_answer(make_trainer: Callable[..., Any]) -> None:
    class Asks:
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
            self.pods.own_rows(np.zeros(1))  # type: ignore[attr-defined]
            return output

    with pytest.raises(InvalidInputError, match="once for each round"):
        trained(make_trainer, "run", rollouts_per_round=M, mixin=Asks)


def test_a_reward_that_compares_the_rollouts_of_a_prompt_is_refused(
    make_trainer: Callable[..., Any],
) -> None:
    def rank(completions: list[Any], num_rollouts: int, **columns: Any) -> list[float]:
        return [i % num_rollouts / num_rollouts for i in range(len(completions))]

    with pytest.raises(InvalidInputError, match="'rank' asks for num_rollouts"):
        make_trainer(N, reward_funcs=rank, rollouts_per_round=M)
    make_trainer(N, reward_funcs=rank)


VLLM = {"use_vllm": True, "rollouts_per_round": M}


@of_stand_in
def test_a_colocated_engine_is_asked_for_each_round(
    make_trainer: Callable[..., Any], stand_in: None
) -> None:
    trainer, rewards = trained(make_trainer, "run", vllm_mode="colocate", **VLLM)
    engine = trainer.vllm_generation.llm
    assert [sum(n for _, n in call) for call in engine.calls] == rewards.calls == [2 * M, M, M, M]


@of_stand_in
def test_a_colocated_engine_sleeps_once_for_all_rounds(
    make_trainer: Callable[..., Any], stand_in: None
) -> None:
    trainer, rewards = trained(
        make_trainer,
        "run",
        vllm_mode="colocate",
        vllm_enable_sleep_mode=True,
        max_steps=2,
        **VLLM,
    )
    assert rewards.calls == [2 * M, M, M, M] * 2
    engine = trainer.vllm_generation.llm
    step = ["wake up weights", "load weights", "wake up kv_cache", "generate", "sleep"]
    assert engine.order == ["sleep", *step, *step]
    assert engine.asleep == {"weights", "kv_cache"}
    assert not {"sleep", "wake_up"} & set(vars(engine))  # it has its own methods again


@of_stand_in
def test_a_colocated_engine_sleeps_where_a_round_fails(
    make_trainer: Callable[..., Any], stand_in: None
) -> None:
    class Fails(KnownRewards):
        def __call__(self, prompts: list[Any], **columns: Any) -> list[float]:
            if self.calls:
                raise ValueError("no more")
            return super().__call__(prompts, **columns)

    trainer = make_trainer(
        N, reward_funcs=Fails(), vllm_mode="colocate", vllm_enable_sleep_mode=True, **VLLM
    )
    with pytest.raises(RewardError, match="no more"):
        trainer.train()
    assert trainer.vllm_generation.llm.asleep


@of_stand_in
def test_a_server_is_asked_for_each_round(make_trainer: Callable[..., Any], server: Any) -> None:
    of_server = {"vllm_mode": "server", "vllm_server_base_url": server.url}
    trainer, rewards = trained(make_trainer, "run", **of_server, **VLLM)
    assert rewards.calls == [2 * M, M, M, M]
    asked = [
        request["n"] * (1 if isinstance(request["prompt"][0], int) else len(request["prompt"]))
        for request in server.requests
    ]
    assert sum(asked) == M + N
    assert logged(trainer)[0]["pods/generated_share"] == (M + N) / (2 * N)
