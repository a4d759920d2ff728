"""Packages that a machine without a network lacks: fetched here as wheels, unpacked there."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: What a machine with torch, transformers, accelerate, pyarrow and pandas lacks.
WHEELS = (
    "trl==1.16.0",
    "datasets==5.2.0",
    "dill==0.4.1",
    "multiprocess==0.70.19",
    "array-api-compat==1.16.0",
)
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def prepare(folder: Path, python: str) -> list[Path]:
    """Download the wheels for a version of Python on x86-64 Linux; without torch and CUDA.

    Raises:
        subprocess.CalledProcessError: pip failed; it said why.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    subprocess.run([*command, "--dest", str(folder), *WHEELS], check=True)
    return sorted(folder.glob("*.whl"))


def install(folder: Path) -> Path:
    """Unpack the wheels of `folder` into a new folder, beside what this Python has.

    No virtual environment: one made from another sees nothing of that other's packages.

    Raises:
        SystemExit: there are none.
        subprocess.CalledProcessError: pip failed; it said why.
    """
    wheels = sorted(str(path) for path in folder.glob("*.whl"))
    if not wheels:
        sys.exit(f"no wheels in {folder}: make them with --prepare {folder}")
    target = Path(tempfile.mkdtemp(prefix="podsrl-wheels-"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-compile", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*command, *wheels], check=True)
    return target


def start_again(arguments: list[str], paths: list[Path]) -> None:
    """Run this script anew in this process, with `paths` first where Python looks for packages."""
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *([known] if known else [])])
    os.execv(sys.executable, [sys.executable, *arguments])


def without_wheels(arguments: list[str]) -> list[str]:
    """The arguments for the process that has the wheels.

    >>> without_wheels(["--wheels", "w", "--smoke"]), without_wheels(["--wheels=w"])
    (['--smoke'], [])
    """
    rest, skip = [], False
    for argument in arguments:
        if skip or argument.startswith("--wheels="):
            skip = False
        elif argument == "--wheels":
            skip = True
        else:
            rest.append(argument)
    return rest
