"""Counting what could grow with the steps of a run: in a process, a model, our own objects."""

import argparse
import gc
import os
import tempfile
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from transformers import TrainerCallback

#: Objects of these packages are looked into.
_PACKAGES = ("podsrl", "podslab", "trl", "transformers", "accelerate")
_DEEPEST = 6
_HOOKS_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
#: What grows in the hosts, and is left as it is there.
KNOWN = (
    # One dictionary for each logged step: transformers keeps it, and saves it with a checkpoint.
    ".state.log_history",
    # One reference for each epoch: accelerate takes it away where a loader is read to its end, and
    # transformers asks for no more batches than it needs.
    ".gradient_state._dataloader_references_ref",
)


def hooks(model: torch.nn.Module) -> int:
    """The hooks of every kind on every module and parameter."""
    found = 0
    for thing in (*model.modules(), *model.parameters()):
        attributes = {name: getattr(thing, name, None) for name in _HOOKS_OF_TENSORS}
        attributes |= vars(thing)
        for name, value in attributes.items():
            if name.endswith("_hooks") and isinstance(value, dict):
                found += len(value)
    return found


def open_files() -> int:
    """The open file descriptors of this process; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.is_dir() else 0


def memory_now(process: int | str = "self") -> int:
    """The resident memory of a process in MB; 0 where the system does not tell."""
    status = Path(f"/proc/{process}/status")
    if not status.is_file():
        return 0
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


def soak_command(
    about: str | None, soak: Callable[[int, Path], list[str]], what: str, usual: int
) -> int:
    """Run a soak in an empty folder, and print what grew.

    Args:
        about: The help of the command.
        soak: Given a number and the folder: what grew.
        what: The name of that number, such as "runs".
        usual: The number, unless the command says another one.

    Returns:
        The exit status: 1 where something grew.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(what, type=int, nargs="?", default=usual)
    number = getattr(parser.parse_args(), what)
    with tempfile.TemporaryDirectory() as folder:
        found = soak(number, Path(folder))
    print("grew:", *(found or ["nothing"]), sep="\n  ", flush=True)
    return 1 if found else 0


def of_process() -> dict[str, int]:
    """What every part of a process shares."""
    return {
        "threads": threading.active_count(),
        "open files": open_files(),
        "warning filters": len(warnings.filters),
    }


def containers(thing: Any, name: str) -> dict[str, int]:
    """How much each list, dictionary, set and queue holds that hangs on an object, by its path."""
    return dict(_containers(thing, name, set(), 0))


def _containers(thing: Any, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, int]]:
    is_container = isinstance(thing, (list, tuple, dict, set, frozenset, deque))
    is_ours = type(thing).__module__.partition(".")[0] in _PACKAGES
    if id(thing) in seen or depth > _DEEPEST or not (is_container or is_ours):
        return
    seen.add(id(thing))
    if isinstance(thing, (torch.nn.Module, ModuleType, FunctionType, MethodType, type)):
        return  # a model's parts are counted by `hooks`
    if path.endswith(KNOWN):
        return
    if is_container:
        yield path, len(thing)
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield from _containers(value, f"{path}[{key!r}]", seen, depth + 1)
    if is_ours:
        for key, value in getattr(thing, "__dict__", {}).items():
            yield from _containers(value, f"{path}.{key}", seen, depth + 1)
    elif isinstance(thing, (list, tuple, deque)):
        for place, value in enumerate(thing):
            yield from _containers(value, f"{path}[{place}]", seen, depth + 1)


def objects() -> Counter[str]:
    """How many objects of each type the garbage collector knows."""
    gc.collect()
    return Counter(f"{type(thing).__module__}.{type(thing).__name__}" for thing in gc.get_objects())


def of_trainer(trainer: Any) -> dict[str, int]:
    """What could grow in a trainer of TRL's or ours, and in its process."""
    return {
        "hooks of the model": hooks(trainer.model),
        "callbacks": len(trainer.callback_handler.callbacks),
        **of_process(),
        **containers(trainer, "trainer"),
    }


class CountAt(TrainerCallback):
    """Counts at the end of some steps.

    Args:
        count: Counts whatever is wanted.
        steps: When.
    """

    def __init__(self, count: Callable[[], Any], steps: tuple[int, ...]) -> None:
        self.count = count
        self.steps = steps
        self.counts: dict[int, Any] = {}

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count, if this is one of the steps."""
        if state.global_step in self.steps:
            self.counts[state.global_step] = self.count()


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    """What is more than it was, with both counts."""
    return {
        name: (before.get(name, 0), count)
        for name, count in after.items()
        if count > before.get(name, 0)
    }
