"""No rule mixes devices: shown on torch's `meta` device, so that a machine without a GPU sees it."""

from typing import Any

import pytest

from podsrl import RULES

torch = pytest.importorskip("torch")
python_dispatch = pytest.importorskip("torch.utils._python_dispatch")
pytree = pytest.importorskip("torch.utils._pytree")


class OneDevice(python_dispatch.TorchDispatchMode):
    """Refuses an operation between tensors of two devices, as a GPU would (scalars may mix)."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        devices = {x.device.type for x in given if x.ndim}
        assert len(devices) < 2, f"{function} mixes {devices}"
        return function(*args, **(kwargs or {}))


def test_the_check_sees_an_index_on_another_device() -> None:
    rewards = torch.empty(4, 8, device="meta")
    with OneDevice(), pytest.raises(AssertionError, match="mixes"):
        rewards.gather(1, torch.zeros(4, 2, dtype=torch.int64))


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", sorted(RULES))
@pytest.mark.parametrize("dtype", ["float64"])
def test_a_rule_stays_on_the_device_of_its_rewards(name: str, seed: int | None, dtype: str) -> None:
    rewards_P_N = torch.empty(4, 64, dtype=getattr(torch, dtype), device="meta")
    with OneDevice():
        kept_P_M = RULES[name](rewards_P_N, 16, seed)
    assert kept_P_M.device.type == "meta"
    assert tuple(kept_P_M.shape) == (4, 16)
    assert kept_P_M.dtype == torch.int64
