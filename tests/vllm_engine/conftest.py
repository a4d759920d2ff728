"""vLLM's real engine in the process of a test."""

from functools import partial
from typing import Any

import pytest
import torch


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's engine in this process, with torch's matrix product in place of its packed ones.

    The packed weights can't be loaded into again, which is how TRL hands over updated ones.
    """

    def plain(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    import vllm
    from trl.generation import vllm_generation
    from vllm.model_executor.layers import utils

    monkeypatch.setattr(utils, "dispatch_cpu_unquantized_gemm", plain)
    # vLLM would halve float32's precision, and log-probs could be compared to 0.1 only
    monkeypatch.setattr(vllm_generation, "LLM", partial(vllm.LLM, dtype="float32"))
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

    for variable in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(variable, "")  # TRL sets them for vLLM; undone after the test
        monkeypatch.delenv(variable)
