"""vLLM through TRL: one request per prompt for all its rollouts, and an engine with room for them.

TRL's own code drives the engine. What it hands to the engine is changed in three places only, each
of them pinned by a test: the size of a colocated engine, and the requests of either mode.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import groupby
from typing import Any
from unittest.mock import patch

from trl.trainer import grpo_trainer

MAX_NUM_BATCHED_TOKENS = 4096  # TRL's setting; vLLM refuses a max_num_seqs above it


@contextmanager
def sized_for_rollouts(num_rollouts: int, num_generations: int) -> Iterator[None]:
    """TRL's trainer, constructed inside, lets a colocated engine decode all n rows at once.

    TRL sets `max_num_seqs` to the rows of the update, so the others would wait for a place.
    """
    original = grpo_trainer.VLLMGeneration

    def construct(**options: Any) -> Any:
        rows = -(-options["max_num_seqs"] * num_rollouts // num_generations)
        options["max_num_seqs"] = min(rows, MAX_NUM_BATCHED_TOKENS)
        return original(**options)

    with patch.object(grpo_trainer, "VLLMGeneration", construct):
        yield


def one_request_per_prompt(generation: Any, num_prompts: int) -> AbstractContextManager[Any]:
    """TRL's `VLLMGeneration.generate`, called inside, asks for each prompt once.

    Colocated, TRL makes a request of every row; a prompt's rows on this process (or on those that
    share a tensor-parallel engine) become one request. A server is asked for n completions of each
    prompt already, but also for n of every prompt among the rows that pad the last ranks' shares;
    those requests are dropped.

    Args:
        generation: the trainer's `vllm_generation`.
        num_prompts: prompts of this generation, over all processes.
    """
    if generation.mode == "server":
        client = getattr(generation, "vllm_client", None)
        if client is None:  # the main process has it
            return nullcontext()
        return patch.object(client, "generate", _without_padding(client.generate, num_prompts))
    return patch.object(generation.llm, "generate", _grouped(generation.llm.generate))


def _grouped(generate: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The engine's `generate`, one request per run of equal prompts; one output per row."""

    def grouped(prompts: Sequence[Any], sampling_params: Any, **kwargs: Any) -> list[Any]:
        runs = [(prompt, len(list(rows))) for prompt, rows in groupby(prompts)]
        params = [sampling_params.clone() for _ in runs]
        for one, (_, count) in zip(params, runs, strict=True):
            one.n = count
        requests = generate([prompt for prompt, _ in runs], sampling_params=params, **kwargs)
        rows = []
        for request in requests:
            for output in request.outputs:
                row = copy.copy(request)
                row.outputs = [output]
                rows.append(row)
        return rows

    return grouped


def _without_padding(generate: Callable[..., Any], num_prompts: int) -> Callable[..., Any]:
    """The client's `generate` for the real prompts; padding rows repeat the last completion."""

    def trimmed(prompts: Sequence[Any], n: int, **kwargs: Any) -> dict[str, Any]:
        padding = len(prompts) - num_prompts
        if kwargs.get("features") is not None:  # of the images
            kwargs["features"] = kwargs["features"][:num_prompts]
        output = generate(prompts=prompts[:num_prompts], n=n, **kwargs)
        rows_of = {"prompt_ids": 1}  # per prompt, the others per completion
        return {
            name: values and [*values, *values[-1:] * (padding * rows_of.get(name, n))]
            for name, values in output.items()
        }

    return trimmed
