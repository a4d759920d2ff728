"""Writes down how many rows the model is run on: the proof of what is trained."""

import json
import os

from verl.workers.engine.fsdp.transformer_impl import FSDPEngine, FSDPEngineWithValueHead

_forward_backward_batch = FSDPEngine.forward_backward_batch


def _and_write_down(self, data, loss_function, forward_only=False):
    path = os.environ.get("CPU_BED_ROWS")
    if path:
        pass_ = "forward" if forward_only else "update"
        model = "reference" if self.engine_config.forward_only else "actor"
        if isinstance(self, FSDPEngineWithValueHead):
            model = "critic"
        masks = data["loss_mask"].unbind()
        rows = {
            "model": model,
            "pass": pass_,
            "rows": len(masks),
            "trained_tokens": [int(mask.sum()) for mask in masks],
        }
        with open(path, "a") as file:
            file.write(json.dumps(rows) + "\n")
    return _forward_backward_batch(self, data, loss_function, forward_only=forward_only)


FSDPEngine.forward_backward_batch = _and_write_down
