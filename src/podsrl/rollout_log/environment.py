"""The environment of a run: versions, hardware, git state, command line."""

import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

#: Whose versions are recorded.
_PACKAGES = (
    "podsrl",
    "torch",
    "trl",
    "transformers",
    "accelerate",
    "datasets",
    "peft",
    "vllm",
    "bitsandbytes",
    "deepspeed",
    "flash-attn",
    "liger-kernel",
    "unsloth",
    "verl",
    "numpy",
)


def describe_environment() -> dict[str, Any]:
    """Versions, hardware, git state, command line and time; "gpus" is None without torch."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command_without_tokens(sys.argv),
        "git": git_state(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "gpus": _gpus(),
        "versions": _versions(),
    }


def _command_without_tokens(words: Sequence[str]) -> list[str]:
    """The command line, without the value of any flag such as --hub_token."""
    shown = []
    for before, word in itertools.pairwise(["", *words]):
        if before.endswith("token"):
            shown.append("***")
        else:
            shown.append(re.sub(r"(?<=token=).+", "***", word))
    return shown


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8", errors="replace") if info.is_file() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.processor() or platform.machine()


def _gpus() -> list[str] | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def git_state(folder: Path) -> dict[str, Any] | None:
    """{"commit", "dirty"} of the checkout that `folder` is in; None if it is in none."""
    git = shutil.which("git") or "true"
    command = [git, "-C", str(folder), "status", "--porcelain=v2", "--branch"]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    if not lines or lines[0].endswith("(initial)"):  # no checkout, or one without a commit
        return None
    changes = [line for line in lines if not line.startswith("#")]
    return {"commit": lines[0].split()[-1], "dirty": bool(changes)}
