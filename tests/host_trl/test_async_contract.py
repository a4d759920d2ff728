"""What `PODSRolloutWorker` refuses, and what it relies on inside TRL."""

# ruff: noqa: F811 (fixtures of another file)

import inspect
import os
from argparse import Namespace

import pytest

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
pytest.importorskip("trl.experimental.async_grpo.packing", reason="it needs TRL 1.16")

from test_async import M, _on_cpu, args, saved, trainer_of, worker  # noqa: F401
from trl.experimental.async_grpo import AsyncGRPOTrainer, async_grpo_trainer, packing
from trl.experimental.async_grpo.async_rollout_worker import (
    AsyncRolloutWorker,
    RolloutGroup,
    _AsyncRolloutLoop,
)

from podsrl.errors import InvalidInputError, PodsError, UnsupportedError
from podsrl.trl import PODSRolloutWorker
from support.agent_scenarios import Counter as Game
from support.agent_scenarios import add
from support.async_runs import letters

# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"n": 2}, InvalidInputError, r"m=4 rollouts can't be kept of num_rollouts=2"),
        ({"n": 8.0}, InvalidInputError, r"num_rollouts must be an integer; got 8.0"),
        ({"num_generations": 0}, InvalidInputError, r"m=0; allowed: 2 <= m <= 8"),
        ({"num_generations": 1}, InvalidInputError, r"m=1; allowed: .*rule=max_contrast"),
        ({"m": 4}, InvalidInputError, r"m=4 is num_generations of AsyncGRPOConfig; set that"),
        ({"colour": 1}, InvalidInputError, r"unknown: colour; allowed: method, m, rule"),
        ({"rule": "best"}, PodsError, r"unknown rule 'best'"),
        ({"rule": "max_contrast", "window": 0}, InvalidInputError, r"window=0 with num_generat"),
        (
            {"rule": "max_contrast", "num_generations": 1, "gradient_accumulation_steps": 1},
            InvalidInputError,
            r"window=1 with num_generations=1; .* at least 2 to compare",
        ),
        (
            {"selection_weights": {"acc": 1.0}},
            InvalidInputError,
            r"names 'acc', which is no reward function; allowed: letters",
        ),
        ({"reward_funcs": [letters, letters]}, InvalidInputError, "two reward functions are"),
    ],
)
def test_what_is_not_supported_is_refused_at_construction(worker, given, kind, says):
    with pytest.raises(kind, match=says):
        worker(**given)


def test_another_trainer_is_refused():
    with pytest.raises(InvalidInputError, match=r"an AsyncGRPOTrainer .* Namespace with no worker"):
        PODSRolloutWorker(Namespace())


def test_a_worker_with_a_loop_of_its_own_is_refused_and_one_with_fewer_fields_is_not(saved, args):
    trainer = trainer_of(saved, letters, args())
    theirs = trainer.rollout_worker
    for name in ("environment_factory", "max_inflight_tasks"):
        theirs._loop_kwargs.pop(name)
    assert PODSRolloutWorker(trainer)._loop_kwargs["environment_factory"] is None
    theirs.__class__ = type("Harness", (AsyncRolloutWorker,), {})
    trainer.rollout_worker = theirs
    with pytest.raises(InvalidInputError, match=r"TRL's own rollout worker, got .* with .*Harness"):
        PODSRolloutWorker(trainer)


def test_an_older_trl_is_refused(worker, monkeypatch):
    monkeypatch.setattr("trl.__version__", "1.15.0")
    with pytest.raises(UnsupportedError, match=r"needs trl >= 1.16, and 1.15.0 is installed"):
        worker()


# ---- what it relies on inside TRL ----------------------------------------------------------------


def test_the_worker_does_what_trls_own_was_set_up_for(saved, args):
    fields = {"temperature": 0.7, "top_k": 5, "max_tool_calling_iterations": 2}
    agent = {"tools": [add], "environment_factory": Game}
    trainer = trainer_of(saved, letters, args(**fields), **agent)
    theirs = dict(trainer.rollout_worker._loop_kwargs)
    made = PODSRolloutWorker(trainer, 2 * M)
    ours = {"selection": made.selection, "num_generations": 2 * M}
    # with n = 2m twice as many are generated for the rows of an update
    ours |= {"max_inflight_tasks": 2 * theirs["max_inflight_tasks"], "window": 1}
    assert made._loop_kwargs == {**theirs, **ours}
    assert trainer.rollout_worker is made
    assert trainer.rollout_queue is made.rollout_buffer
    assert {"lora_name", "tools", "environment_factory", "dataset"} <= set(theirs)


def test_only_the_process_that_has_a_worker_gets_another(saved, args):
    trainer = trainer_of(saved, letters, args())
    trainer.rollout_worker = trainer.rollout_queue = None
    PODSRolloutWorker(trainer)
    assert trainer.rollout_worker is trainer.rollout_queue is None


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
    push = inspect.getsource(_AsyncRolloutLoop._push_metrics)
    assert "payload = dict(values)" in push
    assert "self._metrics_queue.put_nowait(payload)" in push
    start = inspect.getsource(AsyncRolloutWorker.start)
    assert "self._loop_cls" in start
    assert "self.metrics_queue" in start


def test_trl_goes_by_the_numbers_of_trained_rows_to_resume_and_to_end_an_epoch():
    """So every number must be sent, also where all rollouts of a prompt are dropped."""
    save = inspect.getsource(AsyncGRPOTrainer._save_checkpoint)
    assert "next(g for g in itertools.count() if g not in trained)" in save
    stop = inspect.getsource(async_grpo_trainer._EpochStopCallback.on_step_end)
    assert "len(self._trainer._trained_groups)" in stop
    collate = inspect.getsource(async_grpo_trainer.DataCollatorForRollout.torch_call)
    assert 'self.groups_trained.update(example["group_id"] for example in all_examples)' in collate
    loader = inspect.getsource(AsyncGRPOTrainer.get_train_dataloader)
    assert "groups_trained=self._trained_groups" in loader
    # a row's own number, wherever the prompt is: what rows share is found by their tokens
    assert "group_id" not in inspect.getsource(packing.TreeRow.pack)
