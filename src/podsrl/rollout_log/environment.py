"""What a run ran on: versions, hardware, git state, command line."""

import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    *("podsrl", "torch", "trl", "transformers", "accelerate", "datasets", "peft", "vllm"),
    *("bitsandbytes", "deepspeed", "flash-attn", "liger-kernel", "unsloth", "verl", "numpy"),
)


def describe_environment() -> dict[str, Any]:
    """Versions, hardware, the git state of the working directory, the command line and the time.

    GPUs are asked of torch if it has been imported; otherwise "gpus" is None: not known.
    """
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _without_secrets(sys.argv),
        "git": git_state(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory": _memory_bytes(),
        "gpus": _gpu_names(),
        "versions": installed_versions(),
    }


def installed_versions() -> dict[str, str]:
    """The versions of those of `PACKAGES` that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, Any] | None:
    """{"commit", "dirty"} of the checkout that `folder` is in; None if it is in none."""
    git = shutil.which("git")
    if git is None:
        return None

    def ask(*words: str) -> str | None:
        answer = subprocess.run([git, "-C", str(folder), *words], capture_output=True, text=True)
        return answer.stdout.strip() if answer.returncode == 0 else None

    commit = ask("rev-parse", "HEAD")
    return None if commit is None else {"commit": commit, "dirty": bool(ask("status", "-s"))}


def _without_secrets(words: list[str]) -> list[str]:
    """A command line without the value of any flag such as --hub_token."""
    before = ["", *words]
    return [
        re.sub(r"(?<=token=).+", "***", word) if not flag.endswith("token") else "***"
        for flag, word in zip(before, words, strict=False)
    ]


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):  # not on this operating system
        return None


def _gpu_names() -> list[str] | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
