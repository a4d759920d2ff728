"""Parts shared by the tests that need verl: a real TransferQueue, and trainers without workers."""

import importlib.util
import os
import warnings
from types import SimpleNamespace

import pytest

from benchmarks.speed.hosts import RAY_ENVIRONMENT

# imported by verl, in its own processes; and a program that nox -s soak_verl starts
collect_ignore_glob = ["cpu_bed/*", "soak.py"]

for _name, _value in RAY_ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)

if importlib.util.find_spec("verl") is not None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verl warns of every engine that is not installed
        import verl.trainer.ppo.v1  # noqa: F401


@pytest.fixture
def compose():
    """verl's own config with overrides, as on its command line: 4 prompts, 8 rollouts, 1 GPU."""
    import hydra

    def composed(*overrides):
        ours = [
            "algorithm.adv_estimator=grpo",
            "data.train_batch_size=4",
            "actor_rollout_ref.actor.ppo_mini_batch_size=4",
            "actor_rollout_ref.rollout.n=8",
            "actor_rollout_ref.rollout.name=vllm",
            "trainer.n_gpus_per_node=1",
            "critic.enable=False",
        ]
        with hydra.initialize_config_module("verl.trainer.config", version_base=None):
            return hydra.compose("ppo_trainer", [*ours, *overrides])

    return composed


@pytest.fixture
def make_trainer(compose):
    """A trainer of verl (or of ours), made as verl makes it, with one rank and no worker."""
    from verl.trainer.ppo.v1 import get_trainer_cls

    def made(*overrides, cls=None, ranks=1):
        config = compose(*overrides)
        cls = cls or get_trainer_cls(config.trainer.v1.trainer_mode)
        trainer = cls(config)
        trainer.global_steps = 1
        trainer.timing_raw = {}
        trainer.tokenizer = SimpleNamespace(eos_token_id=0)
        trainer.actor_rollout_wg = SimpleNamespace(_dispatch_info={"actor": list(range(ranks))})
        return trainer

    return made


@pytest.fixture(scope="session")
def transfer_queue():
    """verl's TransferQueue on a local Ray."""
    import ray
    import transfer_queue as tq
    from omegaconf import OmegaConf

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    tq.init(
        OmegaConf.create(
            {
                "backend": {
                    "SimpleStorage": {"num_data_storage_units": 1, "total_storage_size": 9999}
                }
            }
        )
    )
    yield tq
    tq.close()
    ray.shutdown()


def _row(uid, reward, tokens, index, unscorable, parts):
    """Fields and tag of a row as verl's agent loop puts them; 3 tokens of prompt."""
    import torch

    response_mask = torch.ones(tokens, dtype=torch.int64)
    scores = torch.zeros(tokens)
    scores[-1] = reward

    fields = {
        "uid": uid,
        "index": index,
        "num_turns": 2,
        "prompts": torch.full((3,), 5),
        "responses": torch.full((tokens,), 7),
        "input_ids": torch.full((3 + tokens,), 7),
        "position_ids": torch.arange(3 + tokens),
        "response_mask": response_mask,
        "loss_mask": response_mask,
        "rm_scores": scores,
        "reward_model": {"ground_truth": "7"},
        "extra_fields": {
            "reward_extra_info": {"acc": reward, "unscorable": float(unscorable)} | parts
        },
    }

    tag = {
        "status": "success",
        "prompt_len": 3,
        "response_len": tokens,
        "seq_len": 3 + tokens,
        "global_steps": 1,
        "min_global_steps": 0,
        "max_global_steps": 0,
    }
    return fields, tag


@pytest.fixture
def put(transfer_queue):
    """Put rows into the queue as verl's agent loop does; gives the batch that verl would sample.

    The queue is emptied before and after.
    """
    from transfer_queue import KVBatchMeta
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    def empty():
        keys = list((transfer_queue.kv_list("train") or {}).get("train", {}))
        if keys:
            transfer_queue.kv_clear(keys=keys, partition_id="train")

    def put_rows(rewards, indices=None, unscorable=(), parts=None):
        """rewards and their parts by key; dataset index by uid; keys said to be unscorable."""
        index_of = indices or {}
        parts_of = parts or {}

        fields, tags = [], []
        for place, (key, reward) in enumerate(rewards.items()):
            uid = key.rsplit("_", 2)[0]
            row_fields, tag = _row(
                uid,
                reward,
                tokens=2 + place % 5,
                index=index_of.get(uid, 0),
                unscorable=key in unscorable,
                parts=parts_of.get(key, {}),
            )
            fields.append(row_fields)
            tags.append(tag)

        keys = list(rewards)
        transfer_queue.kv_batch_put(
            keys=keys,
            partition_id="train",
            fields=list_of_dict_to_tensordict(fields),
            tags=tags,
        )
        return KVBatchMeta(
            partition_id="train", keys=keys, tags=tags, extra_info={"temperature": 1.0}
        )

    empty()
    yield put_rows
    empty()


@pytest.fixture
def keys_left(transfer_queue):
    """The keys that the queue holds now."""
    return lambda: set((transfer_queue.kv_list("train") or {}).get("train", {}))
