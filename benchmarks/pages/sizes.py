"""The pages' numbers of a step at the paper's sizes, computed again from its raw files."""

from benchmarks.folders import RESULTS
from benchmarks.sizes.page import table_of_steps_with_vllm
from benchmarks.sizes.raw_file import read_raw, vllm_file
from benchmarks.sizes.steps import Measured

_RAW = RESULTS / "sizes.jsonl"


def steps_with_vllm() -> list[str]:
    """The table of steps whose rollouts vLLM generates."""
    return table_of_steps_with_vllm(_read())


def _read() -> Measured:
    return Measured(read_raw(_RAW), read_raw(vllm_file(_RAW)))
