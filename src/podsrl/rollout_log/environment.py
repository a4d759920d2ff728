"""What a run ran on: versions, hardware, git state, command line."""

import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = "podsrl torch trl transformers accelerate datasets peft vllm bitsandbytes deepspeed"
_PACKAGES += " flash-attn liger-kernel unsloth verl numpy"


def describe_environment() -> dict[str, Any]:
    """Versions, hardware, git state, command line and time; "gpus" is None without torch."""
    after = itertools.pairwise(["", *sys.argv])
    hidden = r"(?<=token=).+"  # the value of any flag such as --hub_token
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8", errors="replace") if info.is_file() else ""
    cpu = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    torch = sys.modules.get("torch")
    gpus = torch and [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    versions = {}
    for name in _PACKAGES.split():
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["***" if a.endswith("token") else re.sub(hidden, "***", b) for a, b in after],
        "git": git_state(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu[1].strip() if cpu else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "gpus": gpus,
        "versions": versions,
    }


def git_state(folder: Path) -> dict[str, Any] | None:
    """{"commit", "dirty"} of the checkout that `folder` is in; None if it is in none."""
    git = shutil.which("git") or "true"
    command = [git, "-C", str(folder), "status", "--porcelain=v2", "--branch"]
    said = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    if not said or said[0].endswith("(initial)"):
        return None
    changes = [line for line in said if not line.startswith("#")]
    return {"commit": said[0].split()[-1], "dirty": bool(changes)}
