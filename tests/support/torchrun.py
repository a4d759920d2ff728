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


def start(world: int, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> Forked:
    """`torchrun --nproc_per_node WORLD ARGUMENTS`; its output is in `out` and `err` of a folder."""
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=world, run_id="tests", start_method="fork",
        rdzv_backend="c10d", rdzv_endpoint="localhost:0", local_addr="localhost", max_restarts=0,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    return Forked(
        lambda: elastic_launch(config, run_script)(arguments) and None,
        folder / "out",
        folder / "err",
        {"TRL_EXPERIMENTAL_SILENCE": "1", **(env or {})},
    )


def torchrun(world: int, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> Ended:
    """The same, to its end."""
    code = start(world, folder, *arguments, env=env).wait()
    return Ended(code, *((folder / name).read_text("utf-8", "replace") for name in ("out", "err")))
