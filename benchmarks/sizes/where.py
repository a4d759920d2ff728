"""Where something was measured: the hardware and the versions that its seconds depend on."""

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.sizes.raw_file import Line
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.environment import describe_environment

#: The seconds in which everything is imported and the GPU is found.
TO_BEGIN = 180.0


def describe(packages: Sequence[str]) -> dict[str, Any]:
    """The hardware here, and the versions of some packages.

    It begins CUDA, so it is called in a process of its own.
    """
    import torch

    environment = describe_environment()
    here = {
        "processor": environment["cpu"],
        "cores": environment["cores"],
        "allocator": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        **{name: version(name) for name in packages},
    }
    if not torch.cuda.is_available():
        return {"device": "CPU", "memory_bytes": 0, **here}

    properties = torch.cuda.get_device_properties(0)
    return {"device": properties.name, "memory_bytes": properties.total_memory, **here}


def refuse_others(
    lines: Sequence[Line], where: Mapping[str, Any], alike: Sequence[str], raw: Path
) -> None:
    """Refuse to put seconds of different devices or versions beside each other.

    Args:
        lines: Those of the raw file.
        where: What `describe` says of here.
        alike: The names of what the lines of the file have in common.
        raw: The file, for the message.

    Raises:
        InvalidInputError: A line of the file was measured elsewhere.
    """
    for line in lines:
        before = line["where"]
        other = [name for name in alike if before[name] != where[name]]
        if other:
            differences = ", ".join(f"{name} {before[name]}, now {where[name]}" for name in other)
            raise InvalidInputError(
                f"{raw} was measured with {differences}: give the name of another file"
            )
