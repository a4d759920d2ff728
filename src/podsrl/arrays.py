"""Numpy inside, whatever comes in: lists and torch tensors are converted at the door and back."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from podsrl.errors import InvalidInputError

Array = npt.NDArray[Any]


def as_array(values: Any) -> Array:
    """A torch tensor on any device, nested lists or an array, as numpy's."""
    if not _is_tensor(values):
        return np.asarray(values)
    on_cpu = values.detach().cpu()
    # numpy has no bfloat16
    return np.asarray(on_cpu.double() if on_cpu.is_floating_point() else on_cpu)


def as_rewards(values: Any) -> npt.NDArray[np.float64]:
    """Rewards as float64, shape (..., n), or an `InvalidInputError`; None in a list is NaN."""
    if sizes := _sizes_of_uneven_groups(values):
        raise InvalidInputError(
            f"groups must have one length, and these have {sizes}: pad the shorter ones with None"
        )
    try:
        rewards = as_array(values)
        if rewards.dtype == object:  # None in lists
            rewards = rewards.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _no_rewards(f"numpy says: {error}") from error

    are_real_numbers = rewards.dtype.kind in "biuf"
    have_rollouts = rewards.ndim > 0 and rewards.shape[-1] > 0
    if not (are_real_numbers and have_rollouts):
        raise _no_rewards(f"got shape {rewards.shape} of {rewards.dtype}")
    return rewards.astype(np.float64, copy=False)


def _no_rewards(problem: str) -> InvalidInputError:
    return InvalidInputError(
        "rewards must be a numpy array, a torch tensor or nested lists, of shape (..., n): real"
        f" numbers (or None) in groups of one length n >= 1; {problem}"
    )


def like(source: Any, result: Array) -> Any:
    """A result as what it was made from: lists, numpy, or a tensor on its device and as precise."""
    if isinstance(source, (list, tuple)):
        return result.tolist()
    if not _is_tensor(source):
        return result
    both_float = source.is_floating_point() and result.dtype.kind == "f"
    torch = sys.modules["torch"]
    return torch.as_tensor(result, dtype=source.dtype if both_float else None, device=source.device)


def _sizes_of_uneven_groups(values: Any) -> str:
    """The sizes of the groups of a list, such as "2 and 3"; "" where they are all the same."""
    if not isinstance(values, (list, tuple)):
        return ""
    sizes = sorted({len(group) for group in values if isinstance(group, (list, tuple))})
    return " and ".join(map(str, sizes)) if len(sizes) > 1 else ""


def _is_tensor(values: Any) -> bool:
    torch = sys.modules.get("torch")  # not imported here: who has a tensor has imported it
    return torch is not None and isinstance(values, torch.Tensor)
