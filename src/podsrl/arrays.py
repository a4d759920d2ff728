"""Numpy inside, whatever comes in: lists and torch tensors are converted at the door and back."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from podsrl.errors import InvalidInputError

Array = npt.NDArray[Any]


def as_array(given: Any) -> Array:
    """A torch tensor on any device, nested lists or an array, as numpy's."""
    if not _is_tensor(given):
        return np.asarray(given)
    here = given.detach().cpu()
    return np.asarray(here.double() if here.is_floating_point() else here)


def as_rewards(given: Any) -> npt.NDArray[np.float64]:
    """Rewards as float64, shape (..., n), or an `InvalidInputError`; None in a list is NaN."""
    try:
        rewards = as_array(given)
        if rewards.dtype == object:  # None in lists
            rewards = rewards.astype(np.float64)
        problem = f"got shape {rewards.shape} of {rewards.dtype}"
        if rewards.dtype.kind in "biuf" and rewards.ndim and rewards.shape[-1]:
            return rewards.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        problem = f"numpy says: {error}"
    raise InvalidInputError(
        "rewards must be a numpy array, a torch tensor or nested lists, of shape (..., n): real"
        f" numbers (or None) in groups of one length n >= 1; {problem}"
    )


def like(given: Any, found: Array) -> Any:
    """A result as what was given: lists, numpy, or a tensor on its device and as precise."""
    if isinstance(given, (list, tuple)):
        return found.tolist()
    if not _is_tensor(given):
        return found
    floats = given.is_floating_point() and found.dtype.kind == "f"
    torch = sys.modules["torch"]
    return torch.as_tensor(found, dtype=given.dtype if floats else None, device=given.device)


def _is_tensor(given: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.Tensor)
