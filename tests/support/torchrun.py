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
    port = str(20000 + os.getpid() % 20000 + world)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(world)]
    path = os.pathsep.join([TESTS, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [*command, "--master_port", port, *arguments],
        env={**os.environ, "PYTHONPATH": path, "TRL_EXPERIMENTAL_SILENCE": "1", **(env or {})},
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
