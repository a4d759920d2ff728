"""Holding steady what transformers and accelerate let grow with the steps of a run.

* TRL switches gradient checkpointing off and on around generation, and once more around log-probs
  without a gradient. Whenever it is switched on, transformers' `enable_input_require_grads` adds a
  forward hook to the input embeddings and forgets the one before it. So every generation adds two
  hooks, which every later pass calls, and a step takes longer than the one before it
  (transformers 5.8 to 5.23, TRL 1.9 to 1.16).
* It is switched on at the beginning of every `train()`, too, which adds one.
* accelerate keeps every data loader that it prepares, and transformers prepares one for each
  evaluation (accelerate 1.10 to 1.15).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator


@contextmanager
def checkpointing_paused(model: torch.nn.Module) -> Iterator[None]:
    """Inside, no layer of `model` checkpoints; afterwards the same ones do as before.

    TRL finds checkpointing off, and switches nothing. No result changes: what is computed inside
    has no gradient, and hooks and checkpointing functions stay as training found them. Layers that
    the user left out (`every_n_layers`) stay left out, which TRL would switch on with the others.

    Args:
        model: The trained model, with adapters or wrappers or without.
    """
    checkpointing: list[Any] = [module for module in model.modules() if _checkpoints(module)]
    for module in checkpointing:
        module.gradient_checkpointing = False
    try:
        yield
    finally:
        for module in checkpointing:
            module.gradient_checkpointing = True


def _checkpoints(module: torch.nn.Module) -> bool:
    """Whether transformers has switched checkpointing on in this module.

    An attribute of its own, since modules of adapters pass on what they are asked to their model.
    """
    return bool(vars(module).get("gradient_checkpointing", False))


@contextmanager
def input_hooks_replaced(model: torch.nn.Module) -> Iterator[None]:
    """Inside, hooks on the input embeddings may be added anew; at the end the older ones go.

    Args:
        model: The trained model. Where it has adapters, it passes the question on to its own model.
    """
    before: list[Any] = getattr(model, "_require_grads_hooks", [])
    try:
        yield
    finally:
        if getattr(model, "_require_grads_hooks", before) is not before:
            for hook in before:
                hook.remove()


@contextmanager
def loaders_forgotten(accelerator: Accelerator) -> Iterator[None]:
    """Inside, data loaders may be prepared, which the accelerator does not keep.

    It keeps them for a state that it saves itself, and transformers saves its own.
    """
    before = len(accelerator._dataloaders)
    try:
        yield
    finally:
        del accelerator._dataloaders[before:]
