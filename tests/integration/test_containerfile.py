"""The Containerfile without a container: what it copies is enough to build what it installs."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def copied(to: Path) -> None:
    """Copy what the COPY lines name, as a builder would."""
    for line in re.findall(r"^COPY (.+)$", TEXT, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            path = ROOT / source
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
                shutil.copytree(path, to / target, ignore=ignored)
            else:
                shutil.copy(path, to / target)


def test_its_python_and_its_extras_are_the_packages():
    (version,) = re.findall(r"^FROM python:([0-9.]+)-slim$", TEXT, re.MULTILINE)
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]

    (extras,) = re.findall(r'"\.\[(.+)\]"', TEXT)
    optional = PROJECT["optional-dependencies"]
    assert set(extras.split(",")) <= set(optional)
    (torch,) = [one for one in optional["trl"] if one.startswith("torch")]
    assert f'"{torch}"' in TEXT


@pytest.mark.slow
def test_what_it_copies_is_enough_to_build_both_packages(tmp_path):
    sources = tmp_path / "podsrl"
    sources.mkdir()
    copied(sources)
    wheels = tmp_path / "wheels"
    words = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    made = subprocess.run(
        [sys.executable, "-m", *words, "--wheel-dir", str(wheels), ".", "./lab"],
        cwd=sources,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    names = {wheel.name.split("-")[0] for wheel in wheels.iterdir()}
    assert names == {"podsrl", "podsrl_lab"}
