"""Real processes for tests of several ranks."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = str(Path(__file__).parents[1])


def torchrun(
    world: int, *arguments: str, timeout: int = 240, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`torchrun` on this machine with `world` processes that can import `support`."""
    return subprocess.run(
        command(world, *arguments), env=environment(env), capture_output=True, text=True,
        timeout=timeout, check=False,
    )  # fmt: skip


def command(world: int, *arguments: str) -> list[str]:
    """The command line, at a port of this process's own."""
    port = str(20000 + os.getpid() % 20000 + world)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(world)]
    return [*launch, "--master_port", port, *arguments]


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """The environment it runs in."""
    path = os.pathsep.join([TESTS, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "TRL_EXPERIMENTAL_SILENCE": "1", **(more or {})}
