"""The seconds of generating by vLLM, without a trainer: what the updates of a step stand beside.

python -m benchmarks.sizes.vllm_generation RAW.jsonl      # on a GPU, with vLLM: RAW-vllm.jsonl

The engine begins with random weights, as the models of `benchmarks.sizes` do, and is asked for what
TRL asks for: sampled tokens and the log-probability of each. What a trainer adds is not in it: the
weights that are sent to the engine after each step, and the memory that both share.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.own_process import CallFailedError, in_own_process
from benchmarks.sizes.raw_file import Line, append, read_raw, vllm_file
from benchmarks.sizes.shapes import PROMPT_TOKENS, SHAPES
from benchmarks.sizes.steps import Batch
from benchmarks.sizes.where import TO_BEGIN, refuse_others
from podsrl.errors import InvalidInputError

#: Calls a function by its name, for at most so many `seconds`, as `in_own_process` does.
Call = Callable[..., Any]

BATCHES: tuple[Batch, ...] = ((1, 16), (1, 64), (1, 256), (16, 4))
_SHAPES = ("3B", "1.5B", "7B", "0.5B")
_ANSWER = 512
_FEW_TOKENS = 16
_REPETITIONS = 3
_PACKAGES = ("torch", "transformers", "vllm")
#: What a raw file's lines have in common.
_ALIKE = ("device", *_PACKAGES)


def graphs_of(batches: Iterable[int]) -> dict[str, Any]:
    """vLLM's `compilation_config`: one graph for each size of batch, and no compiler.

    A compiler would take a minute more to begin.
    """
    return {
        "mode": 0,
        "cudagraph_mode": "FULL_DECODE_ONLY",
        "cudagraph_capture_sizes": sorted(set(batches)),
    }


#: The share of a GPU's memory that an engine takes beside a model that is trained.
MEMORY_SHARE = 0.4
_ENGINE: dict[str, Any] = {
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "dtype": "bfloat16",
    "max_model_len": PROMPT_TOKENS + _ANSWER,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 4096,
    "gpu_memory_utilization": MEMORY_SHARE,
    "logprobs_mode": "processed_logprobs",
    "compilation_config": graphs_of(prompts * n for prompts, n in BATCHES),
}


def main(arguments: list[str] | None = None, call: Call = in_own_process) -> int:
    """Measure the batches that the raw file lacks."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizes.vllm_generation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("raw", type=Path, help="of the steps: vLLM's file stands beside it")
    parser.add_argument("--minutes", type=float, default=3, help="end after these (3)")
    parser.add_argument("--commit", default="", help="of the code, to be noted")
    args = parser.parse_args(arguments)

    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    try:
        run(vllm_file(args.raw), args.minutes, args.commit, call)
    except InvalidInputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def run(raw: Path, minutes: float, commit: str, call: Call) -> None:
    """Measure what a raw file of vLLM lacks, size by size, each in a process of its own.

    Args:
        raw: The raw file.
        minutes: A size that is at work when they are over is killed; its batches that ended before
            are in the file.
        commit: The commit of the code.
        call: Calls a function in a process of its own.

    Raises:
        InvalidInputError: The file was measured on another device, or with other versions.
        CallFailedError, TimeoutError: Nothing can be measured here.
    """
    ends = time.monotonic() + 60 * minutes
    lines = read_raw(raw)
    where = call("benchmarks.sizes.where:describe", _PACKAGES, seconds=TO_BEGIN)
    refuse_others(lines, where, _ALIKE, raw)

    noted = {"where": where, "commit": commit}
    for shape, batches in _missing(lines).items():
        left = ends - time.monotonic()
        if left <= 0:
            print(f"no time is left for {shape}", flush=True)
            continue
        try:
            name = "benchmarks.sizes.vllm_generation:measure"
            call(name, shape, batches, raw, noted, seconds=left)
        except (CallFailedError, TimeoutError) as error:
            print(f"{shape}: {error}", flush=True)


def _missing(lines: Sequence[Line]) -> dict[str, list[Batch]]:
    """The batches of which the file has no result, by size."""
    done = {(line["shape"], line["prompts"], line["n"]) for line in lines}
    missing: dict[str, list[Batch]] = {}
    for shape in _SHAPES:
        batches = [batch for batch in BATCHES if (shape, *batch) not in done]
        if batches:
            missing[shape] = batches
    return missing


def measure(shape: str, batches: Sequence[Batch], raw: Path, noted: Mapping[str, Any]) -> None:
    """Append the repetitions of each batch of a size to the raw file, as soon as they are made.

    The engine begins once for all batches.

    Args:
        shape: The size.
        batches: The batches of it that are missing.
        raw: The raw file.
        noted: The further entries of each line.
    """
    from vllm import LLM

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        write_configuration(shape, Path(folder))
        engine = LLM(model=folder, **_ENGINE)
    found_of_all = {
        "shape": shape,
        "answer": _ANSWER,
        "prompt_tokens": PROMPT_TOKENS,
        "starting_seconds": time.monotonic() - began,
        "engine": _ENGINE,
        **noted,
    }

    for prompts, n in batches:
        requests = [{"prompt_token_ids": _prompt(number)} for number in range(prompts)]
        _generate(engine, requests, n, _FEW_TOKENS)  # warms up
        lines = []
        for repetition in range(_REPETITIONS):
            generated = _generate(engine, requests, n, _ANSWER)
            batch = {"prompts": prompts, "n": n, "repetition": repetition}
            lines.append({**found_of_all, **batch, **generated})
            print(lines[-1], flush=True)
        append(raw, *lines)


def _generate(engine: Any, requests: list[Any], n: int, tokens: int) -> dict[str, Any]:
    """The seconds of generating so many rollouts of each prompt, and how long they became."""
    from vllm import SamplingParams

    asked = SamplingParams(
        n=n,
        temperature=1.0,
        max_tokens=tokens,
        ignore_eos=True,
        detokenize=False,
        logprobs=0,
    )
    began = time.monotonic()
    answers = engine.generate(requests, asked, use_tqdm=False)
    seconds = time.monotonic() - began

    lengths = {len(rollout.token_ids) for answer in answers for rollout in answer.outputs}
    return {"seconds": seconds, "lengths": sorted(lengths)}


def _prompt(number: int) -> list[int]:
    """Tokens of a prompt; each prompt has others, so that no prefix of one serves another."""
    return [(number * 7 + place) % 500 for place in range(PROMPT_TOKENS)]


def write_configuration(shape: str, folder: Path) -> None:
    """Write the configuration of a model, whose weights the engine makes itself."""
    from benchmarks.sizes.models import configuration

    config = configuration(SHAPES[shape])
    config.architectures = ["Qwen2ForCausalLM"]
    config.dtype = "bfloat16"
    config.save_pretrained(folder)


if __name__ == "__main__":
    raise SystemExit(main())
