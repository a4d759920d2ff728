"""`PODSRolloutWorker` in TRL's asynchronous trainer: n are generated, m are sent."""

import asyncio
import itertools
import json
import math
import multiprocessing
import os
import queue
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
pytest.importorskip("trl.experimental.async_grpo.packing", reason="it needs TRL 1.16")

import torch
from datasets import Dataset
from test_partly_scored import easy, judge
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import (
    AsyncRolloutWorker,
    RolloutGroup,
    RolloutSample,
    TrainingSequence,
    _AsyncRolloutLoop,
)

from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log.run_folder import ROLLOUT_COLUMNS, RunFolder
from podsrl.rules import register_rule
from podsrl.trl import PODSRolloutWorker
from podsrl.trl.async_grpo.loop import SCORED, SelectingLoop
from podsrl.trl.async_grpo.scored_groups import ScoredGroups
from support.agents import questions, text_model
from support.async_runs import down, letters, lower, on_cpu, short, text_of
from support.vllm_stand_in import PolicyServer, serving

N, M = 8, 4
LOGGED = sorted({*ROLLOUT_COLUMNS} - {"step"})


@pytest.fixture(autouse=True)
def _on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    on_cpu(monkeypatch)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model in a folder, which is how the asynchronous trainer takes it."""
    folder = tmp_path_factory.mktemp("model")
    for part in text_model():
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def args(tmp_path: Path) -> Any:
    def make(**fields: Any) -> AsyncGRPOConfig:
        given = {
            "output_dir": str(tmp_path / "run"),
            "num_generations": M,
            "max_steps": 3,
            "seed": 5,
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": 2,
            "use_cpu": True,
            "bf16": False,
            "learning_rate": 1e-2,
            "report_to": "none",
            "save_strategy": "no",
            "max_completion_length": 12,
            "gradient_checkpointing": False,
            "token_budget": 200,
            **fields,
        }
        return AsyncGRPOConfig(**given)

    return make


def trainer_of(
    saved: str, rewards: Any, args: Any, server: Any = None, data: Any = None, **given: Any
) -> Any:
    transfer = server or object()
    return AsyncGRPOTrainer(
        saved, rewards, args, data or questions(), weight_transfer=transfer, **given
    )


def in_a_fork(trainer: Any, n: int = N, **options: Any) -> PODSRolloutWorker:
    """A worker whose process is forked: a new one imports for 7 s."""
    worker = PODSRolloutWorker(trainer, n, **options)
    worker._mp_ctx = multiprocessing.get_context("fork")
    return worker


@pytest.fixture
def worker(saved: str, args: Any) -> Any:
    """worker(num_rollouts=..., ..., fields of the config): as a user makes it."""

    def make(reward_funcs: Any = letters, n: int | None = N, **given: Any) -> PODSRolloutWorker:
        ours = {"rollout_log", "rule", "baseline", "m", "colour", "selection_weights", "window"}
        options = {name: given.pop(name) for name in list(given) if name in ours}
        return PODSRolloutWorker(trainer_of(saved, reward_funcs, args(**given)), n, **options)

    return make


@pytest.fixture
def loop_of() -> Any:
    """loop_of(worker): what runs in the worker's process, without the process."""
    made = []

    def make(worker: AsyncRolloutWorker, kind: type = SelectingLoop) -> Any:
        given = dict(worker._loop_kwargs)
        if kind is _AsyncRolloutLoop:
            given = {k: v for k, v in given.items() if not k.startswith(("select", "window"))}
        nothing = SimpleNamespace(value=1)
        made.append(
            kind(
                **given,
                rollout_buffer=queue.Queue(),
                metrics_queue=queue.Queue(),
                model_version_value=nothing,
                heartbeat_value=nothing,
                failed_event=None,
                exception_info_queue=None,
            )
        )
        return made[-1]

    yield make
    for loop in made:
        loop._loop.close()
        loop._tool_pool.shutdown()


def group_of(texts: list[str], group_id: int = 3, **columns: list[Any]) -> RolloutGroup:
    """A group of conversations; every third one of them forked, which makes two rows of it."""
    n = len(texts)
    rows = []
    for i, text in enumerate(texts):
        ids = [1, 2, *range(10, 10 + len(text))]
        mask = [0, 0, *[1] * len(text)]
        one = TrainingSequence(ids, mask, [-0.1 * i] * len(ids), f"rollout {i}")
        rows.append([one, one] if i % 3 == 2 else [one])
    return RolloutGroup(
        prompts=[[{"role": "user", "content": f"prompt of {i}"}] for i in range(n)],
        reward_kwargs={"answer": [str(i) for i in range(n)], **columns},
        completions=[[{"role": "assistant", "content": text}] for text in texts],
        completions_ids=[list(range(10, 10 + len(text))) for text in texts],
        completions_sequences=rows,
        tool_call_counts=[i % 2 for i in range(n)],
        tool_failure_counts=[0] * n,
        model_version=1,
        group_id=group_id,
        env_rewards=[],
        rollout_rewards=[None] * n,
    )


TEXTS = ["a", "b1", "c23", "dd", "e1234", "ff6f", "12", "g"]


def sent(loop: Any, group: RolloutGroup) -> list[dict[str, Any]]:
    """The rows that a loop sends, so that they can be compared."""
    samples = asyncio.run(loop._score_group(group))
    names = RolloutSample.__dataclass_fields__
    return [
        {name: np.asarray(v).tolist() for name in names if (v := getattr(s, name)) is not None}
        for s in samples
    ]


def ids_of(rows: list[dict[str, Any]]) -> list[str]:
    return [text_of(row["completion"]) for row in rows]


# ---- what is sent --------------------------------------------------------------------------------


@pytest.mark.parametrize("rewards", [letters, [letters, short]])
def test_n_equal_to_m_sends_exactly_what_trls_own_worker_sends(worker, rewards, loop_of):
    made = worker(rewards, M)
    ours, theirs = loop_of(made), loop_of(made, _AsyncRolloutLoop)
    for texts in (TEXTS[:M], ["", "a", "b", "22"], ["a"] * M):
        rows = sent(ours, group_of(texts))
        assert str(rows) == str(sent(theirs, group_of(texts)))  # NaN is not equal to itself
        assert len(rows) == M + 1


def test_only_rows_of_kept_rollouts_are_sent_with_advantages_over_them(worker, loop_of):
    made = worker([letters, short])
    rows = sent(loop_of(made), group_of(TEXTS))
    theirs = loop_of(made, _AsyncRolloutLoop)
    reward = {
        text_of(r["completion"]): r["metrics"]["reward"] for r in sent(theirs, group_of(TEXTS))
    }
    kept = list(dict.fromkeys(ids_of(rows)))
    assert len(kept) == M
    best = max(np.var([reward[t] for t in s]) for s in itertools.combinations(TEXTS, M))
    assert np.var([reward[t] for t in kept]) == pytest.approx(best)
    # as if the kept ones had been all that was generated, forks and all
    places = [TEXTS.index(text) for text in kept]
    alone = {
        text: row for row in sent(theirs, group_of(TEXTS)) if (text := text_of(row["completion"]))
    }
    mean, deviation = (f([reward[t] for t in kept]) for f in (np.mean, np.std))
    assert len(rows) == sum(1 + (place % 3 == 2) for place in places)
    for row in rows:
        text = text_of(row["completion"])
        assert row["advantage"] == pytest.approx((reward[text] - mean) / (deviation + 1e-8))
        same = ("prompt", "input_ids", "completion_mask", "old_log_probs", "group_id")
        assert [row[name] for name in same] == [alone[text][name] for name in same]


def test_trls_metrics_are_of_all_n_and_ours_of_what_is_sent(worker, loop_of):
    made = worker([letters, short])
    rows = sent(loop_of(made), group_of(TEXTS))
    once = {
        text_of(r["completion"]): r["metrics"]
        for r in sent(loop_of(made, _AsyncRolloutLoop), group_of(TEXTS))
    }
    for name in (
        "reward",
        "reward_std",
        "rewards/letters",
        "rewards/short",
        "tools/call_frequency",
    ):
        expected = np.mean([metrics[name] for metrics in once.values()])
        assert [row["metrics"][name] for row in rows] == [pytest.approx(expected)] * len(rows), name


@pytest.mark.parametrize("fields", [{}, {"rule": "max_reward", "num_generations": 1}])
def test_the_group_baseline_keeps_advantages_against_all_n(worker, loop_of, fields):
    made = worker(baseline="group", **fields)
    rows = sent(loop_of(made), group_of(TEXTS))
    theirs = sent(loop_of(made, _AsyncRolloutLoop), group_of(TEXTS))
    of_all = {text_of(row["completion"]): row["advantage"] for row in theirs}
    assert len(set(ids_of(rows))) == fields.get("num_generations", M)
    assert [row["advantage"] for row in rows] == [of_all[text] for text in ids_of(rows)]


def test_selection_by_one_reward_breaks_ties_at_random_and_never_by_the_other(worker, loop_of):
    """Two of eight are right by `letters`: they and two of the six others, evenly."""
    made = worker([letters, short], selection_weights={"letters": 1.0}, num_generations=M)
    loop, texts = loop_of(made), ["aa", "bbb", *(f"{i}" * (1 + i) for i in range(6))]
    drawn: Counter[str] = Counter()
    for group_id in range(120):
        kept = set(ids_of(sent(loop, group_of(texts, group_id))))
        assert {"aa", "bbb"} <= kept
        drawn.update(kept)
    others = [drawn[text] for text in texts[2:]]  # each in 120 x 2/6
    assert sum(others) == 240
    assert sum((count - 40) ** 2 / 40 for count in others) < 20.5  # chi-squared, 5, p < 0.001


def test_a_rollout_without_a_reward_is_sent_only_where_others_are_missing(worker, loop_of):
    loop = loop_of(worker(short))
    rows = sent(loop, group_of(["", "aa", "b", "", "cc", "d", "", ""]))
    assert sorted(set(ids_of(rows))) == ["aa", "b", "cc", "d"]
    rows = sent(loop, group_of(["", "aa", "b", "", "", "d", "", ""]))
    assert {row["advantage"] for row in rows if not text_of(row["completion"])} <= {0.0}


def test_a_rollout_that_one_function_could_not_score_is_kept_last(worker, loop_of):
    made = worker([easy, judge], baseline="group")
    loop = loop_of(made)
    sent(loop, group_of([*"01234567"]))
    (record,) = loop._metrics_queue.get_nowait()[SCORED]
    assert sum(record["kept"]) == M
    assert not any(record["kept"][::3])  # those that `judge` left out
    assert made._summarise([record])["pods/partly_scored"] == 3
    # graded are 8, 8, 6, 8, 10: mean 8, variance 8/5
    rewards, kept = np.array(record["rewards"]), np.array(record["kept"])
    expected = (rewards[kept] - 8) / math.sqrt(8 / 5)
    assert np.array(record["advantages"])[kept] == pytest.approx(expected, abs=1e-6)


def test_a_rule_of_ones_own_is_taken_along_to_the_other_process(worker, loop_of):
    for rule in ("max_reward", "support.async_runs:lower"):
        rows = sent(loop_of(worker(rule=rule)), group_of(["aa", "b1", "c2", "d22", *"1234"]))
        assert sorted(set(ids_of(rows))) == (
            ["1", "2", "3", "4"] if "lower" in rule else ["aa", "b1", "c2", "d22"]
        )
    register_rule("lowest_of_this_test", lower)
    assert loop_of(worker(rule="lowest_of_this_test"))._selection.rule.function is lower


def test_a_reward_function_that_fails_is_named_with_the_step(worker, loop_of):
    with pytest.raises(PodsError, match=r"'down' failed at step 1: OSError: the grader is down"):
        sent(loop_of(worker(down)), group_of(TEXTS))


@pytest.mark.filterwarnings("ignore:invalid value")  # of TRL, which subtracts it
def test_an_infinite_reward_is_refused_also_where_another_one_selects(worker, loop_of):
    loop = loop_of(worker(letters, selection_weights={"letters": 1.0}))
    loop.reward_func_names.append("score")  # of the rollout function
    loop._provides_rollout_reward = True
    scores = [0.5] * (N - 1)
    assert sent(loop, replace(group_of(TEXTS), rollout_rewards=[*scores, 0.0]))
    with pytest.raises(InvalidInputError, match="infinite"):
        sent(loop, replace(group_of(TEXTS), rollout_rewards=[*scores, math.inf]))


# ---- a batch rule --------------------------------------------------------------------------------

ACROSS = {"n": 4, "num_generations": 1, "rule": "max_contrast", "window": 4}
# the shares of letters: no contrast, 1/3 to 2/3, no contrast, 0 to 1/2
OF_PROMPTS = [["aa", "bb", "cc", "dd"], ["a", "ee", "b", "c"], ["1"] * 4, ["2", "f", "3", "4"]]


def window_of(texts_P: list[list[str]], ids_P: list[int]) -> list[RolloutGroup]:
    """Groups without forks; each has a prompt, and weights that it was generated with."""
    groups = [group_of(texts, number) for texts, number in zip(texts_P, ids_P, strict=True)]
    for version, group in enumerate(groups):
        group.model_version = version
        for prompt, rows in zip(group.prompts, group.completions_sequences, strict=True):
            prompt[0]["content"] = f"{version}"
            del rows[1:]
    return groups


def sent_of_window(loop: Any, texts_P: list[list[str]], ids_P: list[int]) -> list[dict[str, Any]]:
    """What a loop sends when it has scored the last group of a window; nothing before."""
    *first, last = window_of(texts_P, ids_P)
    assert [sent(loop, group) for group in first] == [[]] * len(first)
    return sent(loop, last)


def test_a_batch_rule_keeps_the_rows_of_a_window_that_have_contrast(worker, loop_of):
    loop = loop_of(worker(**ACROSS))
    for _ in range(2):  # a window begins anew
        rows = sent_of_window(loop, OF_PROMPTS, [7, 4, 5, 6])
        assert [row["prompt"][0]["content"] for row in rows] == ["1", "1", "3", "3"]
        # two rewards of each prompt: one deviation below and above their mean, as TRL scales
        of_text = {text_of(row["completion"]): row["advantage"] for row in rows}
        assert len(of_text) == 4
        assert of_text.keys() >= {"ee", "f"}
        for text, advantage in of_text.items():
            assert advantage == pytest.approx(1 if text in ("ee", "f") else -1, abs=1e-6)
        # how old they are is theirs, not the window's
        assert [row["model_version"] for row in rows] == [1, 1, 3, 3]


def test_metrics_of_a_window_describe_the_dropped_prompts_too(worker, loop_of):
    made = worker(**ACROSS, rollout_log=False)
    loop = loop_of(made)
    rows = sent_of_window(loop, OF_PROMPTS, [0, 1, 2, 3])
    expected = np.mean([letters([[{"content": t}]])[0] for texts in OF_PROMPTS for t in texts])
    assert [row["metrics"]["reward"] for row in rows] == [pytest.approx(expected)] * 4
    metrics = ScoredGroups(loop._metrics_queue, made._summarise).get_nowait()
    assert (metrics["pods/rollouts"], metrics["pods/kept_rollouts"]) == (16, 4)
    assert metrics["pods/zero_advantage_rows"] == 0


def test_every_number_of_a_window_is_sent_and_none_with_rows_of_two_prompts(worker, loop_of):
    """TRL resumes at the first number that was not trained on, and counts them for an epoch."""
    loop = loop_of(worker(**ACROSS))
    rows = sent_of_window(loop, OF_PROMPTS, [7, 4, 5, 6])
    assert sorted(row["group_id"] for row in rows) == [4, 5, 6, 7]
    assert {4, 6} <= {row["group_id"] for row in rows if row["prompt"][0]["content"] in "13"}
    few = sent_of_window(loop, [["1"] * 4] * 3 + [["5", "g", "6", "hh"]], [8, 11, 10, 9])
    of_number = {row["group_id"]: row["prompt"][0]["content"] for row in few}
    assert sorted(of_number) == [8, 9, 10, 11]


def test_a_batch_rule_that_keeps_all_sends_what_trls_own_worker_sends(worker, loop_of):
    made = worker(n=M, num_generations=M, rule="max_contrast", window=2)
    texts_P = [TEXTS[:M], TEXTS[M:]]
    rows = sent_of_window(loop_of(made), texts_P, [0, 1])
    theirs = loop_of(made, _AsyncRolloutLoop)
    alone = [row for group in window_of(texts_P, [0, 1]) for row in sent(theirs, group)]
    assert str(rows) == str(alone)


def test_the_window_is_by_default_that_of_an_optimiser_step(worker):
    steps = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3}
    given = {"n": 8, "num_generations": 2, **steps}
    assert worker(**given, rule="max_contrast")._loop_kwargs["window"] == 6  # 12 rows, 2 of each
    assert worker(**given)._loop_kwargs["window"] == 1  # max_variance looks at one prompt


# ---- the whole -----------------------------------------------------------------------------------


def logged_steps(trainer: Any) -> list[dict[str, Any]]:
    return [entry for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.slow
def test_the_asynchronous_trainer_learns_from_kept_rows_only(saved, args, tmp_path, monkeypatch):
    """TRL's trainer and its process of rollouts, with a server that samples from the policy."""
    rows: list[RolloutSample] = []
    with serving(PolicyServer(text_model()[0])) as server:
        config = args(vllm_server_base_url=server.url, max_staleness=2, max_steps=4)
        trainer = trainer_of(saved, [letters, short], config, server)
        worker = PODSRolloutWorker(trainer, num_rollouts=N)
        receive = trainer.rollout_queue.get

        def record(**kwargs: Any) -> Any:
            rows.append(receive(**kwargs))
            return rows[-1]

        monkeypatch.setattr(trainer.rollout_queue, "get", record)
        before = [p.detach().clone() for p in trainer.model.parameters()]
        trainer.train()
        assert server.updates == 5
    assert any(
        not torch.equal(*pair) for pair in zip(before, trainer.model.parameters(), strict=True)
    )
    steps = logged_steps(trainer)
    assert [step["ratio"] == pytest.approx(1.0, abs=0.3) for step in steps] == [True] * 4
    assert steps[0]["ratio"] == pytest.approx(1.0, abs=1e-3)  # fresh from the same weights
    assert set(Counter(row.group_id for row in rows).values()) <= {1, 2, 3, M}
    assert sum(count == M for count in Counter(row.group_id for row in rows).values()) >= 2
    for name in ("pods/kept_reward", "pods/correlation/letters", "pods/correlation/short"):
        assert sum(name in step for step in steps) >= 1, name
    log = RunFolder(tmp_path / "run")
    columns = [log.rollouts(step).to_pandas() for step in log.rollout_steps()]
    kept = {
        tuple(worker._tokenizer(text).input_ids)
        for table in columns
        for text in table[table["kept"]]["completion"]
    }
    assert kept
    for table in columns:
        for _, group in table.groupby("group"):
            rewards = group["reward"].to_numpy()
            chosen = group["kept"].to_numpy()
            assert len(group) == N
            assert chosen.sum() == M
            best = max(np.var(rewards[list(s)]) for s in itertools.combinations(range(N), M))
            assert np.var(rewards[chosen]) == pytest.approx(best)
            assert group["rewards/letters"].notna().all()


@pytest.mark.slow
def test_an_epoch_across_prompts_ends_and_its_checkpoint_says_where(saved, args, tmp_path):
    """Most prompts are dropped whole, and each of the eight counts as trained on."""
    with serving(PolicyServer(text_model()[0])) as server:
        config = args(
            vllm_server_base_url=server.url,
            max_staleness=50,
            max_inflight_tasks=1,
            num_generations=1,
            max_steps=-1,
            num_train_epochs=1,
            token_budget=0,
            save_strategy="steps",
            per_device_train_batch_size=2,
            gradient_accumulation_steps=1,
        )
        trainer = trainer_of(saved, letters, config, server)
        # of four rollouts under way at a time, those of a prompt are ready before the next one's
        in_a_fork(trainer, 4, rule="max_contrast", window=4)
        trainer.train()
    # two rows each, as many as prompts in all
    assert trainer.state.global_step == 4
    (saved_at,) = (tmp_path / "run").glob("checkpoint-*/rollout_state.json")
    assert json.loads(saved_at.read_text())["prompt_index"] == 8
    log = RunFolder(tmp_path / "run")
    tables = [log.rollouts(step).to_pandas() for step in log.rollout_steps()]
    kept = [table.groupby("group")["kept"].sum().tolist() for table in tables]
    windows = [of[i : i + 4] for of in kept for i in range(0, len(of), 4)]
    assert {sum(window) for window in windows} == {4}
    assert all(0 in window for window in windows)


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_its_log_from_the_checkpoint(saved, args, tmp_path):
    """Also with a dataset without a length, where TRL begins again at the first prompt."""
    run, checkpoint = RunFolder(tmp_path / "run"), tmp_path / "run" / "checkpoint-2"
    for resume in (None, str(checkpoint)):
        with serving(PolicyServer(text_model()[0])) as server:
            config = args(
                vllm_server_base_url=server.url,
                max_staleness=2,
                max_inflight_tasks=1,
                max_steps=3,
                save_strategy="steps",
                save_steps=2,
                logging_steps=1,
            )
            data = questions().to_iterable_dataset()
            trainer = trainer_of(saved, letters, config, server, data)
            in_a_fork(trainer)
            if resume:
                for step in (2, 3):
                    run.write_rollouts(step, {name: [None] for name in LOGGED})
            trainer.train(resume_from_checkpoint=resume)
    assert checkpoint.is_dir()
    assert [path.name for path in run.path.glob("previous-*/*")] == ["checkpoint-3"]
    assert run.rollouts(2)["prompt"].to_pylist() == [None]  # of before, and none of later
    assert all(run.rollouts(3)["prompt"].to_pylist())
    assert max(run.rollout_steps()) == 3


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_run_stopped_at_step_3_of_6_trains_on_every_prompt_once_when_it_is_resumed(
    saved, args, tmp_path, accumulation
):
    """Of 24 prompts each micro-batch is the 4 kept rollouts of one, in their order.

    TRL fetches a micro-batch ahead, which is not trained on when the checkpoint is written.
    """
    asked = [[{"role": "user", "content": f"question {i}"}] for i in range(24)]
    trained: list[str] = []
    for last, resume in ((3, None), (6, str(tmp_path / "run" / "checkpoint-3"))):
        with serving(PolicyServer(text_model()[0])) as server:
            config = args(
                vllm_server_base_url=server.url,
                max_staleness=50,
                max_inflight_tasks=1,
                max_steps=last,
                save_strategy="steps",
                save_steps=3,
                per_device_train_batch_size=M,
                gradient_accumulation_steps=accumulation,
                token_budget=0,
            )
            data = Dataset.from_dict({"prompt": asked})
            trainer = trainer_of(saved, letters, config, server, data)
            in_a_fork(trainer)
            fetched = fetched_prompts(trainer)
            trainer.train(resume_from_checkpoint=resume)
        trained += list(dict.fromkeys(fetched))[: 3 * accumulation]
        state = tmp_path / "run" / f"checkpoint-{last}" / "rollout_state.json"
        assert json.loads(state.read_text())["prompt_index"] == last * accumulation
    assert trained == [f"question {i}" for i in range(6 * accumulation)]


def fetched_prompts(trainer: Any) -> list[str]:
    """The prompts of the rows that TRL fetches while it trains, as they come."""
    prompts: list[str] = []
    receive = trainer.rollout_queue.get

    def record(**kwargs: Any) -> Any:
        row = receive(**kwargs)
        prompts.append(row.prompt[-1]["content"])
        return row

    trainer.rollout_queue.get = record
    return prompts


@pytest.mark.slow
def test_a_reward_function_that_fails_ends_training_with_its_name(saved, args):
    """TRL's own worker would then wait for its dead process."""
    with serving(PolicyServer(text_model()[0])) as server:
        trainer = trainer_of(saved, down, args(vllm_server_base_url=server.url), server)
        worker = in_a_fork(trainer, rollout_log=False)
        with pytest.raises(RuntimeError, match="Rollout worker child has failed") as failed:
            trainer.train()
    assert "reward function 'down' failed at step 1" in str(failed.value.__cause__)
    assert worker._process is None


def test_no_group_is_lost_however_many_are_scored_between_two_logs(worker):
    """TRL's own queue has 4,096 places, of which its metrics of each rollout take most."""
    made = worker()
    made.metrics_queue.cancel_join_thread()  # where it fails, no process waits for a reader
    for number in range(5_000):
        made.metrics_queue.put_nowait({"number": number})
    taken = [made.metrics_queue.get(timeout=10)["number"] for _ in range(5_000)]
    assert taken == [*range(5_000)]


def test_groups_that_were_scored_since_the_last_log_become_metrics_once(worker, loop_of):
    made = worker([letters, short], rollout_log=False)
    loop = loop_of(made)
    scored = ScoredGroups(loop._metrics_queue, made._summarise)
    for group_id, texts in enumerate([TEXTS, ["a"] * N, TEXTS]):
        sent(loop, group_of(texts, group_id))
    metrics = scored.get_nowait()
    assert metrics["pods/rollouts"] % N == 0
    assert metrics["pods/zero_variance_groups"] == 1
    assert metrics["pods/kept_tokens"] + metrics["pods/dropped_tokens"] == sum(
        2 + len(text) for text in [*TEXTS, *["a"] * N, *TEXTS]
    )
    assert 0 < metrics["pods/correlation/letters"] <= 1
    with pytest.raises(queue.Empty):
        scored.get_nowait()
