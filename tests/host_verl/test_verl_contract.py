"""What podsrl relies on in verl 0.9: an upgrade shall fail here, and not in a long run."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.protocol import DataProto
from verl.trainer.ppo.metric_utils import compute_data_metrics
from verl.trainer.ppo.v1 import PPOTrainer, PPOTrainerSync, agent_loop_tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils.tensordict_utils import make_iterator
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

from podsrl import group_advantages
from podsrl.verl.groups import Row
from podsrl.verl.metrics import summarise_rows

CHANGED = "verl changed {}: podsrl.verl.trainer relies on it, see docs/verl.md"


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("_balance_batch", ["batch", "metrics"]),
        ("_compute_advantage", ["batch", "metrics"]),
        ("_update_actor", ["batch", "metrics"]),
        ("_update_critic", ["batch", "metrics"]),
        ("_compute_metrics", ["batch", "metrics", "timing_raw"]),
        ("_log_rollout_data", ["batch", "timing_raw", "rollout_data_dir"]),
        (
            "_dump_generations",
            ["inputs", "outputs", "gts", "scores", "reward_extra_infos_dict", "dump_path"],
        ),
    ],
)
def test_the_wrapped_methods_take_what_we_pass_on(method, parameters):
    found = list(inspect.signature(getattr(PPOTrainer, method)).parameters)[1:]
    assert found[: len(parameters)] == parameters, CHANGED.format(f"{method}{tuple(found)}")


def test_the_asynchronous_buffer_asks_one_method_which_groups_it_throws_away():
    """A group with at least m rollouts left is taken out of the third of what it returns."""
    method = ReplayBufferAsync._terminal_eviction_reasons
    found = inspect.signature(method)
    assert list(found.parameters)[1:] == ["global_steps", "partition_id"], CHANGED.format(found)
    assert str(found.return_annotation).count("set[str]") == 3, CHANGED.format(found)
    assert callable(PPOTrainer._build_replay_buffer)


def test_rewards_come_before_balancing_and_all_that_costs_memory_comes_after():
    """Where rows are dropped decides what is saved."""
    order = []

    def stage(name):
        def run(self, batch, metrics=None):
            order.append(name)
            return batch

        return run

    names = [
        "_compute_reward_colocate",
        "_balance_batch",
        "_compute_old_log_prob",
        "_compute_ref_log_prob",
        "_compute_values",
        "_compute_advantage",
        "_update_critic",
        "_update_actor",
    ]

    # A synchronous trainer with all that its step asks for, whose stages only note their names.
    trainer = object.__new__(
        type("Probe", (PPOTrainerSync,), {name: stage(name) for name in names})
    )
    trainer.on_sample_begin = trainer.on_sample_end = lambda: None
    trainer.use_reference_policy = trainer.use_critic = True
    trainer.global_steps = 1
    trainer.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=None)
    trainer.config = SimpleNamespace(
        actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(temperature=1.0)),
        trainer=SimpleNamespace(critic_warmup=0),
    )
    batch = KVBatchMeta(partition_id="train")
    trainer.replay_buffer = SimpleNamespace(sample=lambda **_: (batch, {}))

    trainer._step_once({}, {}, sample_batch_size=4)

    assert order == names, CHANGED.format("the order of stages in _step_once")


def test_the_batch_is_padded_to_a_multiple_of_mini_batch_prompts_times_rollout_n(make_trainer):
    """Trap 1: left at n, dropped rows come back as padding."""
    trainer = make_trainer("actor_rollout_ref.rollout.n=8")
    assert trainer._get_required_batch_multiple(dp_size=1) == 4 * 8, CHANGED.format("padding")

    trainer.config.actor_rollout_ref.rollout.n = 2
    assert trainer._get_required_batch_multiple(dp_size=1) == 4 * 2, CHANGED.format("padding")


def test_verl_chooses_the_replay_buffer_by_the_literal_name_sync(make_trainer):
    """Trap 2: under a name of our own a synchronous trainer would get the asynchronous buffer."""
    own_name = make_trainer("trainer.v1.trainer_mode=pods_sync", cls=PPOTrainerSync)
    assert type(own_name.replay_buffer) is ReplayBufferAsync, CHANGED.format("mode names")

    apart = [
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.rollout.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
        "trainer.v1.separate_async.parameter_sync_step=1",
    ]
    for host in ("sync", "colocate_async", "separate_async"):
        mode = f"+trainer.v1.pods_{host}.m=4"
        ours = make_trainer(f"trainer.v1.trainer_mode=pods_{host}", mode, *apart)
        theirs = make_trainer(f"trainer.v1.trainer_mode={host}", *apart)
        assert type(ours.replay_buffer) is type(theirs.replay_buffer)
        assert ours.trainer_mode == theirs.trainer_mode == host


def test_a_step_numbers_its_mini_batches_and_reports_once():
    """`separate_async` makes several updates a step; metrics and files are of the whole step."""
    step = inspect.getsource(PPOTrainer.step)
    assert "for trigger_idx in range(self.parameter_sync_step):" in step, CHANGED.format("step")
    assert "self.local_trigger_step = trigger_idx" in step, CHANGED.format("step")

    fit = inspect.getsource(PPOTrainer.fit)
    assert fit.count("self._compute_metrics(batch, metrics") == 1, CHANGED.format("fit")


def test_the_loss_of_a_mini_batch_is_divided_by_what_the_engine_and_the_update_count():
    """Advantages are scaled by the share of these numbers that has a pass."""
    engine = inspect.getsource(FSDPEngine.forward_backward_batch)
    assert 'batch_num_tokens = data["loss_mask"].sum()' in engine, CHANGED.format("token counts")

    update = inspect.getsource(PPOTrainer._update_actor)
    for name in ("global_batch_size", "mini_batch_size"):
        assert f'"{name}": ppo_mini_batch_size,' in update, CHANGED.format(name)

    written = inspect.getsource(agent_loop_tq)
    assert 'field["loss_mask"] = field["response_mask"]' in written, CHANGED.format("loss_mask")


def test_a_rank_takes_its_mini_batches_from_its_share_in_order():
    """`mini_batches_of` says which rows of a balanced batch are trained on together."""
    rank = TensorDict({"row": torch.arange(6)}, batch_size=6)
    found = [
        batch["row"].tolist()
        for batch in make_iterator(rank, mini_batch_size=2, epochs=1, seed=1, dataloader_kwargs={})
    ]
    assert found == [[0, 1], [2, 3], [4, 5]], CHANGED.format("make_iterator")


def test_a_selected_batch_keeps_tags_partition_and_extra_info():
    batch = KVBatchMeta(
        keys=["a", "b", "c"],
        tags=[{"i": 0}, {"i": 1}, {"i": 2}],
        partition_id="train",
        extra_info={"temperature": 0.5},
    )

    kept = batch.select_keys(["c", "a"])
    found = (kept.keys, kept.tags, kept.partition_id, kept.extra_info)
    assert found == (["c", "a"], [{"i": 2}, {"i": 0}], "train", {"temperature": 0.5}), (
        CHANGED.format("KVBatchMeta.select_keys")
    )


@pytest.mark.parametrize("scale", [True, False])
def test_grpo_advantages_of_sessions_are_by_their_last_row_and_as_ours(scale):
    """Two sessions of one prompt; the first has two rows, and only its last reward counts."""
    keys = ["u_0_0", "u_0_1", "u_1_0", "u_2_0"]
    rewards = torch.tensor([[0.0, 9.0], [0.0, 1.0], [0.0, 0.25], [0.0, 0.0]])
    data = DataProto(
        batch=TensorDict(
            {"token_level_rewards": rewards, "response_mask": torch.ones(4, 2)}, batch_size=4
        ),
        non_tensor_batch={"uid": np.array(["u"] * 4, dtype=object)},
    )

    data = compute_advantage_for_multi_trajectories(
        data, keys, adv_estimator="grpo", norm_adv_by_std_in_grpo=scale
    )

    ours = group_advantages([1.0, 0.25, 0.0], [0, 1, 2], scale=scale, eps=1e-6)
    expected = [ours[0], ours[0], ours[1], ours[2]]
    found = data.batch["advantages"][:, 0].tolist()
    assert found == pytest.approx(expected, abs=1e-6), CHANGED.format("GRPO's advantages")


def test_data_metrics_of_a_summary_are_those_of_the_rows_themselves():
    """`summarise_rows` gives verl's metric function widths and sums in place of tokens."""
    draw = torch.Generator().manual_seed(0)
    prompt_lengths = [3, 2, 3, 1, 3]
    response_lengths = [4, 1, 6, 6, 2]
    turns = [2, 2, 4, 2, 2]
    rewards = [0.5, 1.0, 0.25, 0.0, 0.75]

    # The rows themselves, padded to the longest; the reward stands at the last token.
    of_prompts = (5, max(prompt_lengths))
    of_responses = (5, max(response_lengths))
    scores = torch.zeros(of_responses)
    for place, length in enumerate(response_lengths):
        scores[place, length - 1] = rewards[place]
    full = DataProto(
        batch=TensorDict(
            {
                "token_level_scores": scores,
                "token_level_rewards": scores,
                "advantages": torch.rand(of_responses, generator=draw),
                "returns": torch.rand(of_responses, generator=draw),
                "response_mask": torch.ones(of_responses),
                "prompts": torch.zeros(of_prompts, dtype=torch.int64),
                "responses": torch.zeros(of_responses, dtype=torch.int64),
                "prompt_length": torch.tensor(prompt_lengths).float(),
                "response_length": torch.tensor(response_lengths).float(),
            },
            batch_size=5,
        ),
        non_tensor_batch={"__num_turns__": np.array(turns)},
    )

    # The same as podsrl keeps them.
    rows = []
    for place, reward in enumerate(rewards):
        lengths = {
            "prompt_len": prompt_lengths[place],
            "response_len": response_lengths[place],
        }
        rows.append(Row("", reward, {}, turns[place], lengths))

    ours = compute_data_metrics(summarise_rows(rows), use_critic=False)
    theirs = compute_data_metrics(full, use_critic=False)

    trained_only = ("critic/advantages", "critic/returns")
    expected = {name: value for name, value in theirs.items() if not name.startswith(trained_only)}
    found = {name: value for name, value in ours.items() if not name.startswith(trained_only)}
    assert found == pytest.approx(expected, abs=1e-6), CHANGED.format("compute_data_metrics")
