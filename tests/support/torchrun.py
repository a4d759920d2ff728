"""`torchrun` on this machine: its own agent, in a process of its own, whose ranks are forked."""

from pathlib import Path
from typing import NamedTuple

from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from support.forked import Forked, run_script


class Ended(NamedTuple):
    """A job that has ended."""

    returncode: int
    stdout: str
    stderr: str


def torchrun(world: int, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> Ended:
    """`torchrun --nproc_per_node WORLD ARGUMENTS`; its output is in `out` and `err` of a folder."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=world,
        run_id="tests",
        start_method="fork",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
    )
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "out"
    err = folder / "err"
    silent = {"TRL_EXPERIMENTAL_SILENCE": "1", **(env or {})}
    job = Forked(lambda: elastic_launch(config, run_script)(arguments) and None, out, err, silent)
    return Ended(job.wait(), *(said.read_text("utf-8", "replace") for said in (out, err)))
