"""`PODSRolloutWorker` in TRL's asynchronous trainer: n are generated, m are sent."""

import asyncio
import json
import math
import multiprocessing
import os
import queue
from collections import Counter
from dataclasses import fields, replace
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
from podsrl.rollout_log.columns import REQUIRED
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.rules import RULES, register_rule
from podsrl.trl import PODSRolloutWorker
from podsrl.trl.async_grpo.loop import SCORED, SelectingLoop
from podsrl.trl.async_grpo.scored_groups import ScoredGroups
from podsrl.trl.async_grpo.worker import MOST_METRICS
from support.agents import questions, text_model
from support.async_runs import down, letters, lower, on_cpu, short, text_of
from support.brute_force import highest_variance
from support.growth import CountAt, containers, grown, of_trainer
from support.vllm_stand_in import PolicyServer, serving

N = 8
M = 4
LOGGED_COLUMNS = sorted({column.name for column in REQUIRED} - {"step"})


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


# ---- trainers, workers and loops -----------------------------------------------------------------


@pytest.fixture
def args(tmp_path: Path) -> Any:
    def make(**fields: Any) -> AsyncGRPOConfig:
        defaults = {
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
        }
        return AsyncGRPOConfig(**{**defaults, **fields})

    return make


def trainer_of(
    saved: str, rewards: Any, args: Any, server: Any = None, data: Any = None, **agent: Any
) -> AsyncGRPOTrainer:
    """TRL's trainer; without a server it can't generate, which a test of a loop does not need."""
    return AsyncGRPOTrainer(
        saved,
        rewards,
        args,
        data or questions(),
        weight_transfer=server or object(),
        **agent,
    )


def in_a_fork(trainer: Any, n: int = N, **options: Any) -> PODSRolloutWorker:
    """A worker whose process is forked: a new one imports for 7 s."""
    worker = PODSRolloutWorker(trainer, n, **options)
    worker._mp_ctx = multiprocessing.get_context("fork")
    return worker


@pytest.fixture
def worker(saved: str, args: Any) -> Any:
    """worker(reward_funcs, n, options of ours and fields of the config): as a user makes it."""

    def make(reward_funcs: Any = letters, n: int | None = N, **given: Any) -> PODSRolloutWorker:
        of_config = {field.name for field in fields(AsyncGRPOConfig)} & set(given)
        options = {name: value for name, value in given.items() if name not in of_config}
        trainer = trainer_of(saved, reward_funcs, args(**{name: given[name] for name in of_config}))
        return PODSRolloutWorker(trainer, n, **options)

    return make


@pytest.fixture
def loop_of() -> Any:
    """loop_of(worker): what runs in the worker's process, without the process."""
    made = []

    def make(worker: AsyncRolloutWorker, kind: type = SelectingLoop) -> Any:
        settings = dict(worker._loop_kwargs)
        if kind is _AsyncRolloutLoop:
            of_trl = [name for name in settings if not name.startswith(("select", "window"))]
            settings = {name: settings[name] for name in of_trl}

        unchanging = SimpleNamespace(value=1)
        loop = kind(
            **settings,
            rollout_buffer=queue.Queue(),
            metrics_queue=queue.Queue(),
            model_version_value=unchanging,
            heartbeat_value=unchanging,
            failed_event=None,
            exception_info_queue=None,
        )
        made.append(loop)
        return loop

    yield make
    for loop in made:
        loop._loop.close()
        loop._tool_pool.shutdown()


@pytest.fixture
def trls_loop_of(loop_of: Any) -> Any:
    """trls_loop_of(worker): TRL's own loop, which selects nothing, with the worker's settings."""
    return lambda worker: loop_of(worker, _AsyncRolloutLoop)


# ---- groups, and the rows that a loop sends of them ----------------------------------------------


def is_forked(place: int) -> bool:
    """Whether the conversation at this place of a group makes two rows."""
    return place % 3 == 2


def group_of(texts: list[str], group_id: int = 3, **columns: list[Any]) -> RolloutGroup:
    """A group of conversations; every third one of them forked, which makes two rows of it."""
    n = len(texts)
    completions_ids = [list(range(10, 10 + len(text))) for text in texts]

    sequences = []
    for place, completion_ids in enumerate(completions_ids):
        ids = [1, 2, *completion_ids]
        mask = [0, 0, *[1] * len(completion_ids)]
        logprobs = [-0.1 * place] * len(ids)
        row = TrainingSequence(ids, mask, logprobs, f"rollout {place}")
        sequences.append([row, row] if is_forked(place) else [row])

    return RolloutGroup(
        prompts=[[{"role": "user", "content": f"prompt of {i}"}] for i in range(n)],
        reward_kwargs={"answer": [str(i) for i in range(n)], **columns},
        completions=[[{"role": "assistant", "content": text}] for text in texts],
        completions_ids=completions_ids,
        completions_sequences=sequences,
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

    rows = []
    for sample in samples:
        values = {name: getattr(sample, name) for name in RolloutSample.__dataclass_fields__}
        rows.append({name: np.asarray(v).tolist() for name, v in values.items() if v is not None})
    return rows


def texts_of(rows: list[dict[str, Any]]) -> list[str]:
    """The completions of rows, which tell the rollouts of a group apart."""
    return [text_of(row["completion"]) for row in rows]


def by_text(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One row of each rollout."""
    return dict(zip(texts_of(rows), rows, strict=True))


# ---- what is sent --------------------------------------------------------------------------------


@pytest.mark.parametrize("rewards", [letters, [letters, short]])
def test_n_equal_to_m_sends_exactly_what_trls_own_worker_sends(
    worker, loop_of, trls_loop_of, rewards
):
    made = worker(rewards, M)
    loop = loop_of(made)
    trls_loop = trls_loop_of(made)
    for texts in (TEXTS[:M], ["", "a", "b", "22"], ["a"] * M):
        rows = sent(loop, group_of(texts))
        trls_rows = sent(trls_loop, group_of(texts))
        assert str(rows) == str(trls_rows)  # NaN is not equal to itself
        assert len(rows) == M + 1  # one of them forked


def test_a_trainer_that_never_logs_lets_nothing_wait_without_end(worker):
    made = worker()
    made.metrics_queue.cancel_join_thread()  # else the end of the process waits for a reader
    for _ in range(MOST_METRICS):
        made.metrics_queue.put_nowait({})
    with pytest.raises(queue.Full):
        made.metrics_queue.put_nowait({})


def test_only_rows_of_kept_rollouts_are_sent_with_advantages_over_them(
    worker, loop_of, trls_loop_of
):
    made = worker([letters, short])
    rows = sent(loop_of(made), group_of(TEXTS))
    trls_row = by_text(sent(trls_loop_of(made), group_of(TEXTS)))
    reward = {text: row["metrics"]["reward"] for text, row in trls_row.items()}

    kept = list(dict.fromkeys(texts_of(rows)))
    kept_rewards = [reward[text] for text in kept]
    assert len(kept) == M
    all_rewards = [reward[text] for text in TEXTS]
    assert np.var(kept_rewards) == pytest.approx(highest_variance(all_rewards, M))

    # as if the kept ones had been all that was generated, forks and all
    rows_of_each = [2 if is_forked(TEXTS.index(text)) else 1 for text in kept]
    assert len(rows) == sum(rows_of_each)
    mean = np.mean(kept_rewards)
    deviation = np.std(kept_rewards)
    for row in rows:
        text = text_of(row["completion"])
        assert row["advantage"] == pytest.approx((reward[text] - mean) / (deviation + 1e-8))
        for field in ("prompt", "input_ids", "completion_mask", "old_log_probs", "group_id"):
            assert row[field] == trls_row[text][field]


def test_trls_metrics_are_of_all_n_and_ours_of_what_is_sent(worker, loop_of, trls_loop_of):
    made = worker([letters, short])
    rows = sent(loop_of(made), group_of(TEXTS))
    trls_row = by_text(sent(trls_loop_of(made), group_of(TEXTS)))

    for name in (
        "reward",
        "reward_std",
        "rewards/letters",
        "rewards/short",
        "tools/call_frequency",
    ):
        expected = np.mean([row["metrics"][name] for row in trls_row.values()])
        values = [row["metrics"][name] for row in rows]
        assert values == [pytest.approx(expected)] * len(rows), name


@pytest.mark.parametrize("fields", [{}, {"rule": "max_reward", "num_generations": 1}])
def test_the_group_baseline_keeps_advantages_against_all_n(worker, loop_of, trls_loop_of, fields):
    made = worker(baseline="group", **fields)
    rows = sent(loop_of(made), group_of(TEXTS))
    trls_row = by_text(sent(trls_loop_of(made), group_of(TEXTS)))

    assert len(set(texts_of(rows))) == fields.get("num_generations", M)
    for row in rows:
        assert row["advantage"] == trls_row[text_of(row["completion"])]["advantage"]


def test_selection_by_one_reward_breaks_ties_at_random_and_never_by_the_other(worker, loop_of):
    """Two of eight are right by `letters`: they and two of the six others, evenly."""
    loop = loop_of(worker([letters, short], selection_weights={"letters": 1.0}, num_generations=M))
    right = ["aa", "bbb"]
    wrong = ["0", "11", "222", "3333", "44444", "555555"]  # of which `short` prefers some

    times_kept: Counter[str] = Counter()
    for group_id in range(120):
        kept = set(texts_of(sent(loop, group_of([*right, *wrong], group_id))))
        assert kept >= set(right)
        times_kept.update(kept)

    counts = [times_kept[text] for text in wrong]
    assert sum(counts) == 2 * 120
    chi_squared = sum((count - 40) ** 2 / 40 for count in counts)  # each in 120 x 2/6
    assert chi_squared < 20.5  # 5 degrees of freedom, p < 0.001


def test_a_rollout_without_a_reward_is_sent_only_where_others_are_missing(worker, loop_of):
    loop = loop_of(worker(short))

    rows = sent(loop, group_of(["", "aa", "b", "", "cc", "d", "", ""]))
    assert set(texts_of(rows)) == {"aa", "b", "cc", "d"}

    rows = sent(loop, group_of(["", "aa", "b", "", "", "d", "", ""]))
    unscored = [row for row in rows if text_of(row["completion"]) == ""]
    assert {row["advantage"] for row in unscored} <= {0.0}


def test_a_rollout_that_one_function_could_not_score_is_kept_last(worker, loop_of):
    made = worker([easy, judge], baseline="group")
    loop = loop_of(made)
    sent(loop, group_of([*"01234567"]))
    (record,) = loop._metrics_queue.get_nowait()[SCORED]
    assert sum(record["kept"]) == M
    assert not any(record["kept"][::3])  # those that `judge` left out
    assert made._summarise([record])["pods/partly_scored"] == 3

    # graded are 8, 8, 6, 8, 10: mean 8, variance 8/5
    kept = np.array(record["kept"])
    rewards = np.array(record["rewards"])[kept]
    advantages = np.array(record["advantages"])[kept]
    assert advantages == pytest.approx((rewards - 8) / math.sqrt(8 / 5), abs=1e-6)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("max_reward", {"aa", "b1", "c2", "d22"}),
        ("support.async_runs:lower", {"1", "2", "3", "4"}),
    ],
)
def test_a_rule_by_name_or_path_is_taken_along_to_the_other_process(worker, loop_of, rule, kept):
    group = group_of(["aa", "b1", "c2", "d22", "1", "2", "3", "4"])
    rows = sent(loop_of(worker(rule=rule)), group)
    assert set(texts_of(rows)) == kept


def test_a_registered_rule_is_taken_along_to_the_other_process(worker, loop_of):
    register_rule("lowest_of_this_test", lower)
    try:
        loop = loop_of(worker(rule="lowest_of_this_test"))
        assert loop._selection.rule.function is lower
    finally:
        del RULES["lowest_of_this_test"]


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

#: The completions of four prompts.
WINDOW_TEXTS = [
    ["aa", "bb", "cc", "dd"],  # no contrast: all have the same share of letters
    ["a", "ee", "b", "c"],  # shares of 1/2 and 2/3
    ["1", "1", "1", "1"],  # no contrast
    ["2", "f", "3", "4"],  # shares of 0 and 1/2
]


def window_of(texts_P: list[list[str]], ids_P: list[int]) -> list[RolloutGroup]:
    """Groups without forks; each has a prompt, and weights that it was generated with."""
    groups = []
    for number, (texts, group_id) in enumerate(zip(texts_P, ids_P, strict=True)):
        group = group_of(texts, group_id)
        group.model_version = number
        for prompt in group.prompts:
            prompt[0]["content"] = str(number)
        for rows in group.completions_sequences:
            del rows[1:]
        groups.append(group)
    return groups


def sent_of_window(loop: Any, texts_P: list[list[str]], ids_P: list[int]) -> list[dict[str, Any]]:
    """What a loop sends when it has scored the last group of a window; nothing before."""
    *first, last = window_of(texts_P, ids_P)
    for group in first:
        assert sent(loop, group) == []
    return sent(loop, last)


def prompt_of(row: dict[str, Any]) -> str:
    return row["prompt"][0]["content"]


def test_a_batch_rule_keeps_the_rows_of_a_window_that_have_contrast(worker, loop_of):
    loop = loop_of(worker(**ACROSS))
    for _ in range(2):  # a window begins anew
        rows = sent_of_window(loop, WINDOW_TEXTS, [7, 4, 5, 6])
        assert [prompt_of(row) for row in rows] == ["1", "1", "3", "3"]
        # how old they are is theirs, not the window's
        assert [row["model_version"] for row in rows] == [1, 1, 3, 3]

        # two rewards of each prompt: one deviation below and above their mean, as TRL scales
        advantages = {text: row["advantage"] for text, row in by_text(rows).items()}
        assert len(advantages) == 4
        assert advantages.pop("ee") == pytest.approx(1, abs=1e-6)
        assert advantages.pop("f") == pytest.approx(1, abs=1e-6)
        assert [*advantages.values()] == [pytest.approx(-1, abs=1e-6)] * 2


def test_metrics_of_a_window_describe_the_dropped_prompts_too(worker, loop_of):
    made = worker(**ACROSS, rollout_log=False)
    loop = loop_of(made)
    rows = sent_of_window(loop, WINDOW_TEXTS, [0, 1, 2, 3])

    completions = [[{"content": text}] for texts in WINDOW_TEXTS for text in texts]
    mean_reward = np.mean(letters(completions))
    assert [row["metrics"]["reward"] for row in rows] == [pytest.approx(mean_reward)] * 4

    metrics = ScoredGroups(loop._metrics_queue, made._summarise).get_nowait()
    assert metrics["pods/rollouts"] == 16
    assert metrics["pods/kept_rollouts"] == 4
    assert metrics["pods/zero_advantage_rows"] == 0


def test_every_number_of_a_window_is_sent_and_none_with_rows_of_two_prompts(worker, loop_of):
    """TRL resumes at the first number that was not trained on, and counts them for an epoch."""
    loop = loop_of(worker(**ACROSS))

    rows = sent_of_window(loop, WINDOW_TEXTS, [7, 4, 5, 6])
    assert sorted(row["group_id"] for row in rows) == [4, 5, 6, 7]
    assert {4, 6} <= {row["group_id"] for row in rows if prompt_of(row) in ("1", "3")}

    only_the_last_differs = [["1"] * 4, ["1"] * 4, ["1"] * 4, ["5", "g", "6", "hh"]]
    rows = sent_of_window(loop, only_the_last_differs, [8, 11, 10, 9])
    assert {row["group_id"] for row in rows} == {8, 9, 10, 11}


def test_a_batch_rule_that_keeps_all_sends_what_trls_own_worker_sends(
    worker, loop_of, trls_loop_of
):
    made = worker(n=M, num_generations=M, rule="max_contrast", window=2)
    texts_P = [TEXTS[:M], TEXTS[M:]]
    rows = sent_of_window(loop_of(made), texts_P, [0, 1])

    trls_loop = trls_loop_of(made)
    trls_rows = []
    for group in window_of(texts_P, [0, 1]):
        trls_rows += sent(trls_loop, group)
    assert str(rows) == str(trls_rows)


def test_the_window_is_by_default_that_of_an_optimiser_step(worker):
    fields = {
        "n": 8,
        "num_generations": 2,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 3,
    }
    across = worker(**fields, rule="max_contrast")
    per_prompt = worker(**fields)
    assert across._loop_kwargs["window"] == 6  # 12 rows, 2 of each
    assert per_prompt._loop_kwargs["window"] == 1  # max_variance looks at one prompt


# ---- the whole -----------------------------------------------------------------------------------


def fetched_rows(trainer: Any) -> list[RolloutSample]:
    """The rows that TRL fetches while it trains, as they come."""
    rows: list[RolloutSample] = []
    receive = trainer.rollout_queue.get

    def record(**kwargs: Any) -> Any:
        row = receive(**kwargs)
        rows.append(row)
        return row

    trainer.rollout_queue.get = record
    return rows


def rollout_tables(folder: Path) -> list[Any]:
    """The recorded rollouts of each step, as data frames."""
    run = RunFolder(folder)
    return [run.rollouts(step).to_pandas() for step in run.rollout_steps()]


def prompts_used(checkpoint: Path) -> int:
    """Where in the dataset TRL's trainer goes on from a checkpoint."""
    state = json.loads((checkpoint / "rollout_state.json").read_text())
    return state["prompt_index"]


@pytest.mark.slow
def test_the_asynchronous_trainer_learns_from_kept_rows_only(saved, args, tmp_path):
    """TRL's trainer and its process of rollouts, with a server that samples from the policy."""
    with serving(PolicyServer(text_model()[0])) as server:
        config = args(vllm_server_base_url=server.url, max_staleness=2, max_steps=4)
        trainer = trainer_of(saved, [letters, short], config, server)
        PODSRolloutWorker(trainer, num_rollouts=N)
        rows = fetched_rows(trainer)
        before = [weight.detach().clone() for weight in trainer.model.parameters()]
        trainer.train()

    assert server.updates == 5
    after = [*trainer.model.parameters()]
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))

    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    ratios = [step["ratio"] for step in steps]
    assert ratios == [pytest.approx(1.0, abs=0.3)] * 4
    assert ratios[0] == pytest.approx(1.0, abs=1e-3)  # fresh from the same weights
    for name in ("pods/kept_reward", "pods/correlation/letters", "pods/correlation/short"):
        assert any(name in step for step in steps), name

    # a group that is only half fetched when training ends has fewer rows
    rows_per_group = Counter(row.group_id for row in rows)
    assert set(rows_per_group.values()) <= {1, 2, 3, M}
    assert [*rows_per_group.values()].count(M) >= 2

    tables = rollout_tables(tmp_path / "run")
    assert any(table["kept"].any() for table in tables)
    for table in tables:
        assert table["rewards/letters"].notna().all()
        for _, group in table.groupby("group"):
            assert len(group) == N
            kept_rewards = group["reward"][group["kept"]].to_numpy()
            assert len(kept_rewards) == M

            # `short` has no word on an empty completion, which is kept last.
            scored = group[group["rewards/short"].notna()]
            if len(scored) >= M:
                assert scored["kept"].sum() == M
                best = highest_variance(scored["reward"].to_numpy(), M)
                assert np.var(kept_rewards) == pytest.approx(best)


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

    assert trainer.state.global_step == 4  # two rows each, as many as prompts in all
    (checkpoint,) = (tmp_path / "run").glob("checkpoint-*")
    assert prompts_used(checkpoint) == 8

    windows = []
    for table in rollout_tables(tmp_path / "run"):
        kept_by_prompt = table.groupby("group")["kept"].sum().tolist()
        for start in range(0, len(kept_by_prompt), 4):
            windows.append(kept_by_prompt[start : start + 4])
    assert {sum(window) for window in windows} == {4}
    assert all(0 in window for window in windows)  # a prompt that was dropped whole


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_its_log_from_the_checkpoint(saved, args, tmp_path):
    """Also with a dataset without a length, where TRL begins again at the first prompt."""

    def train(server: Any, resume: str | None) -> None:
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
        trainer.train(resume_from_checkpoint=resume)

    run = RunFolder(tmp_path / "run")
    checkpoint = run.path / "checkpoint-2"
    with serving(PolicyServer(text_model()[0])) as server:
        train(server, resume=None)
    assert checkpoint.is_dir()

    nothing_said = {name: [None] for name in LOGGED_COLUMNS}
    for step in (2, 3):
        run.write_rollouts(step, nothing_said)
    with serving(PolicyServer(text_model()[0])) as server:
        train(server, resume=str(checkpoint))

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
    prompts = [[{"role": "user", "content": f"question {i}"}] for i in range(24)]
    data = Dataset.from_dict({"prompt": prompts})

    def prompts_of_three_steps(server: Any, last_step: int, resume: str | None) -> list[str]:
        config = args(
            vllm_server_base_url=server.url,
            max_staleness=50,
            max_inflight_tasks=1,
            max_steps=last_step,
            save_strategy="steps",
            save_steps=3,
            per_device_train_batch_size=M,
            gradient_accumulation_steps=accumulation,
            token_budget=0,
        )
        trainer = trainer_of(saved, letters, config, server, data)
        in_a_fork(trainer)
        rows = fetched_rows(trainer)
        trainer.train(resume_from_checkpoint=resume)

        fetched = [row.prompt[-1]["content"] for row in rows]
        in_order = [*dict.fromkeys(fetched)]
        return in_order[: 3 * accumulation]

    run = tmp_path / "run"
    with serving(PolicyServer(text_model()[0])) as server:
        before = prompts_of_three_steps(server, last_step=3, resume=None)
    with serving(PolicyServer(text_model()[0])) as server:
        resume = str(run / "checkpoint-3")
        after = prompts_of_three_steps(server, last_step=6, resume=resume)

    assert [*before, *after] == [f"question {i}" for i in range(6 * accumulation)]
    assert prompts_used(run / "checkpoint-3") == 3 * accumulation
    assert prompts_used(run / "checkpoint-6") == 6 * accumulation


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
    all_alike = ["a"] * N
    for group_id, texts in enumerate([TEXTS, all_alike, TEXTS]):
        sent(loop, group_of(texts, group_id))

    metrics = scored.get_nowait()
    tokens = [2 + len(text) for text in [*TEXTS, *all_alike, *TEXTS]]
    assert metrics["pods/kept_tokens"] + metrics["pods/dropped_tokens"] == sum(tokens)
    assert metrics["pods/rollouts"] % N == 0
    assert metrics["pods/zero_variance_groups"] == 1
    assert 0 < metrics["pods/correlation/letters"] <= 1

    with pytest.raises(queue.Empty):  # of the same groups nothing is left
        scored.get_nowait()


# ---- after many steps ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_trainer_with_our_worker_holds_no_more_after_many_steps(saved, args):
    """Except for the numbers of the prompts that were trained on, which TRL remembers."""
    with serving(PolicyServer(text_model()[0])) as server:
        config = args(vllm_server_base_url=server.url, max_steps=24, logging_steps=1)
        trainer = trainer_of(saved, letters, config, server)
        worker = in_a_fork(trainer, rollout_log_max_rows=4 * N)
        worker_of = {"worker": worker}
        at = CountAt(lambda: of_trainer(trainer) | containers(worker_of, "ours"), steps=(8, 16, 24))
        trainer.add_callback(at)
        trainer.train()

    # Rows that wait for the next batch, and requests that are being answered, are now more, now
    # less. What grows with the steps has as many more of it after each eight.
    early = grown(at.counts[8], at.counts[16])
    late = grown(at.counts[16], at.counts[24])
    every_step = {
        name: (early[name], late[name])
        for name in set(early) & set(late)
        if min(early[name][1] - early[name][0], late[name][1] - late[name][0]) >= 8
    }
    assert {name for name in every_step if "_trained_gr" not in name} == set()


def test_the_process_that_generates_holds_no_more_after_many_groups(worker, loop_of):
    loop = loop_of(worker(letters, rule="max_contrast", window=2))
    counts = []
    for first, last in ((0, 20), (20, 60)):
        for number in range(first, last):
            sent(loop, group_of(TEXTS, group_id=number))
        while not loop._metrics_queue.empty():  # as the trainer's log empties it
            loop._metrics_queue.get_nowait()
        counts.append(containers(loop, "loop"))
    assert grown(*counts) == {}
    assert "loop._waiting" in counts[0]
