"""No rule mixes devices: shown on torch's `meta` device, where there is no GPU."""

from typing import Any

import pytest

from podsrl import RULES
from podsrl.advantages import group_advantages
from podsrl.downsampling import is_batch_rule

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
@pytest.mark.parametrize("name", [name for name in RULES if not is_batch_rule(RULES[name])])
def test_a_rule_stays_on_the_device_of_its_rewards(name: str, seed: int | None) -> None:
    rewards_P_N = torch.empty(4, 64, dtype=torch.float64, device="meta")
    with OneDevice():
        kept_P_M = RULES[name](rewards_P_N, 16, seed)
    assert kept_P_M.device.type == "meta"
    assert tuple(kept_P_M.shape) == (4, 16)
    assert kept_P_M.dtype == torch.int64


@pytest.mark.parametrize("baseline", ["kept", "group"])
def test_advantages_stay_on_the_device_of_the_rewards(
    baseline: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewards_P_N = torch.empty(4, 64, device="meta")
    kept_P_M = torch.empty(4, 16, dtype=torch.int64, device="meta")
    # the check reads values, which meta tensors have not
    monkeypatch.setattr("podsrl.advantages._check", lambda *given: None)
    with OneDevice():
        advantages = group_advantages(rewards_P_N, kept_P_M, baseline=baseline)
    assert advantages.device.type == "meta"
