"""Writes down what the TransferQueue holds in the middle of each step, by verl's own hook."""

import json
from pathlib import Path

import transfer_queue as tq
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback


class WriteDownKeys(CheckpointCallback):
    """For trainer.checkpoint_callback_class: after the update, before its rows are cleared."""

    def on_save(self, trainer, global_step, checkpoint_dir, **_):
        keys = (tq.kv_list("train") or {}).get("train", {})
        with open(Path(checkpoint_dir).parent / "queue.jsonl", "a") as file:
            file.write(json.dumps({"step": global_step, "keys": sorted(keys)}) + "\n")
