"""What `PODSRolloutWorker` refuses, and what it relies on inside TRL."""

# ruff: noqa: F811 (fixtures of another file)

import inspect
import os
from typing import Any

import pytest

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
pytest.importorskip("trl.experimental.async_grpo.packing", reason="it needs TRL 1.16")

from test_async import M, _on_cpu, args, loop_of, saved, worker  # noqa: F401
from trl.experimental.async_grpo import AsyncGRPOTrainer, async_grpo_trainer
from trl.experimental.async_grpo.async_rollout_worker import (
    AsyncRolloutWorker,
    RolloutGroup,
    _AsyncRolloutLoop,
)

from podsrl.errors import InvalidInputError, PodsError, UnsupportedError
from podsrl.trl import PODSConfig
from support.agent_scenarios import Counter as Game
from support.agent_scenarios import add
from support.agents import questions
from support.async_runs import letters
from support.vllm_stand_in import serving

# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"n": 2}, InvalidInputError, r"m=4 rollouts can't be kept of num_rollouts=2"),
        ({"n": 8.0}, InvalidInputError, r"num_rollouts must be an integer; got 8.0"),
        ({"num_generations": 0}, InvalidInputError, r"m=0; allowed: 2 <= m <= 8"),
        ({"num_generations": 1}, UnsupportedError, r"which num_generations=1 needs"),
        ({"m": 4}, InvalidInputError, r"m=4 is num_generations of AsyncGRPOConfig; set that"),
        ({"colour": 1}, InvalidInputError, r"unknown: colour; allowed: m, rule"),
        ({"rule": "best"}, PodsError, r"unknown rule 'best'"),
        ({"rule": "max_contrast"}, UnsupportedError, r"take a group rule here, or PODSTrainer"),
        (
            {"selection_weights": {"acc": 1.0}}, InvalidInputError,
            r"names 'acc', which is no reward function; allowed: letters",
        ),
        ({"reward_funcs": [letters, letters]}, InvalidInputError, "two reward functions are"),
        ({"args": None}, InvalidInputError, r"needs args=AsyncGRPOConfig\(...\), got NoneType"),
        ({"train_dataset": None}, InvalidInputError, r"train_dataset is required without"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_at_construction(worker, given, kind, says):
    with pytest.raises(kind, match=says):
        worker(**given)


def test_a_config_of_the_other_trainer_is_refused(worker, tmp_path):
    other = PODSConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)
    with pytest.raises(InvalidInputError, match="got PODSConfig; PODSConfig is for PODSTrainer"):
        worker(args=other)


def test_an_older_trl_is_refused(worker, monkeypatch):
    monkeypatch.setattr("trl.__version__", "1.15.0")
    with pytest.raises(UnsupportedError, match=r"needs trl >= 1.16, and 1.15.0 is installed"):
        worker()


def test_an_adapter_on_the_server_needs_the_trainers_peft_config(worker, monkeypatch, loop_of):
    """Else the worker would ask for the model without it."""
    monkeypatch.setattr(AsyncRolloutWorker, "start", lambda self: None)
    with serving() as server:
        server.models.append("trl-policy-v1")
        for peft_config in (None, object()):
            made = worker(
                vllm_server_base_url=server.url, peft_config=peft_config, rollout_log=False
            )
            made.update_model_version(1)
            if peft_config is None:
                with pytest.raises(UnsupportedError, match="give PODSRolloutWorker the trainer's"):
                    made.start()
            else:
                made.start()
                assert loop_of(made)._request_model == "trl-policy-v1"


# ---- what it relies on inside TRL ----------------------------------------------------------------


def test_the_worker_is_given_what_trls_trainer_gives_its_own(saved, args, worker, monkeypatch):
    given: dict[str, Any] = {}

    class Recorded(AsyncRolloutWorker):
        def __init__(self, **kwargs: Any) -> None:
            given.update(kwargs)
            super().__init__(**kwargs)

    monkeypatch.setattr(async_grpo_trainer, "AsyncRolloutWorker", Recorded)
    fields = {"temperature": 0.7, "top_k": 5, "max_tool_calling_iterations": 2, "min_p": 0.1}
    agent = {"tools": [add], "environment_factory": Game}
    trainer = AsyncGRPOTrainer(
        saved, letters, args(**fields), questions(), weight_transfer=object(), **agent
    )
    made = worker(n=M, **fields, **agent)
    ours = {**made._loop_kwargs, "lora_name": None}
    assert set(given) == set(ours) - {"selection", "select_partly_scored", "dataset_start_index"}
    other = ("dataset", "processing_class")
    assert {k: v for k, v in given.items() if k not in other} == {
        k: v for k, v in ours.items() if k in given and k not in other
    }
    assert ours["processing_class"].get_vocab() == given["processing_class"].get_vocab()
    assert ours["dataset"].to_list() == given["dataset"].to_list()
    assert trainer._lora_name == "trl-policy"
    # with n = 2m twice as many are generated for the rows of an update
    assert worker(**fields)._loop_kwargs["max_inflight_tasks"] == 2 * given["max_inflight_tasks"]
    assert worker(max_inflight_tasks=9)._loop_kwargs["max_inflight_tasks"] == 9


def test_trls_worker_and_loop_have_what_is_wrapped():
    assert AsyncRolloutWorker._loop_cls is _AsyncRolloutLoop
    assert list(inspect.signature(_AsyncRolloutLoop._score_group).parameters) == ["self", "group"]
    assert inspect.iscoroutinefunction(_AsyncRolloutLoop._score_group)
    assert list(RolloutGroup.__dataclass_fields__) == [
        *("prompts", "reward_kwargs", "completions", "completions_ids", "completions_sequences"),
        *("tool_call_counts", "tool_failure_counts", "model_version", "group_id", "env_rewards"),
        *("rollout_rewards", "queued_at"),
    ]
    # the trainer reads the worker's queue of metrics anew at each log, by this method only
    log = inspect.getsource(AsyncGRPOTrainer.log)
    assert "self.rollout_worker.metrics_queue.get_nowait().items()" in log
    start = inspect.getsource(AsyncRolloutWorker.start)
    assert "self._loop_cls" in start
    assert "self.metrics_queue" in start
