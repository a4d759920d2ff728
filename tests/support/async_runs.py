"""TRL's asynchronous trainer on a CPU: what it lacks there, and rewards that can be pickled."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from trl.experimental.async_grpo import async_grpo_trainer, async_rollout_worker, packing


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_q: Any,
    cu_k: Any,
    *_: Any,
    softmax_scale: float,
    causal: bool,
    window_size: tuple[int, int],
) -> torch.Tensor:
    """Attention of each segment's last places of a path to the path, in place of the GPU kernel."""
    assert causal
    assert window_size == (-1, -1)
    outputs = []
    for segment in range(len(cu_q) - 1):
        of_queries = slice(cu_q[segment], cu_q[segment + 1])
        of_keys = slice(cu_k[segment], cu_k[segment + 1])
        queries = q[of_queries].transpose(0, 1)
        keys = k[of_keys].transpose(0, 1)
        values = v[of_keys].transpose(0, 1)

        # the queries are the last places of the path, and see what is before them
        is_seen = torch.ones(queries.shape[1], keys.shape[1], dtype=torch.bool)
        is_seen = is_seen.tril(keys.shape[1] - queries.shape[1])
        output = torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=is_seen, scale=softmax_scale, enable_gqa=True
        )
        outputs.append(output.transpose(0, 1))
    return torch.cat(outputs)


def on_cpu(patch: pytest.MonkeyPatch) -> None:
    """TRL's asynchronous trainer without its GPU kernel, and its worker without vLLM here."""
    kernels = SimpleNamespace(flash_attn_varlen_func=flash_attn_varlen_func)
    patch.setattr(packing, "_flash_attn", lambda: kernels)
    patch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *given: None)
    patch.setattr(async_rollout_worker, "is_vllm_available", lambda: True)


class NoTransfer:
    """A `weight_transfer` that sends nothing: the server keeps the weights that it began with."""

    def send_weights(self, iterator: Any) -> None:
        list(iterator)

    def init_weight_transfer(self) -> None:
        pass

    pause = resume = destroy = init_weight_transfer


def text_of(completion: list[dict[str, Any]]) -> str:
    return "".join(str(m.get("content") or "") for m in completion)


def letters(completions: list[Any], **kwargs: Any) -> list[float]:
    """The share of bytes that are letters."""
    shares = []
    for completion in completions:
        text = text_of(completion)
        shares.append(sum(letter.isalpha() for letter in text) / (1 + len(text)))
    return shares


async def short(completions: list[Any], **kwargs: Any) -> list[float | None]:
    """A tenth for each of an even number of bytes; none for nothing at all."""
    sizes = [len(text_of(c)) for c in completions]
    return [0.1 * (size % 2 == 0) if size else None for size in sizes]


def down(completions: list[Any], **kwargs: Any) -> list[float]:
    """Fails."""
    raise OSError("the grader is down")


def lower(rewards_P_N: Any, m: int, seed: Any) -> Any:
    """A rule of one's own: the m lowest."""
    return rewards_P_N.argsort(axis=-1)[..., :m]
