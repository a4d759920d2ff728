"""The built wheel in a new environment: every command runs from an empty folder."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

import podsrl

pytest.importorskip("trl")
readme_renderer = pytest.importorskip("readme_renderer.markdown")
trove_classifiers = pytest.importorskip("trove_classifiers")

ROOT = Path(__file__).parents[2]
TRIAL = ROOT / "tests" / "support" / "wheel_trial.py"
#: The wheel's lines of Python. The aim is 12,000 (CONTRIBUTING.md). This number goes down, and up
#: only for what CONTRIBUTING.md allows.
MAX_LINES = 18_535
DATA = {".py", ".yaml", ".css", ".js", ".j2"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An sdist, and the wheel that is built from what the sdist holds."""
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"  # a build leaves files where it runs
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for room in ("src", "tests", "benchmarks"):
        shutil.copytree(ROOT / room, tree / room, ignore=ignored)
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    code = (
        "import os, sys, tarfile; from pathlib import Path; from setuptools import build_meta\n"
        "sdist = Path('..', build_meta.build_sdist('..')).resolve()\n"
        "tarfile.open(sdist).extractall('..', filter='data')\n"
        "os.chdir(sdist.with_name(sdist.name.removesuffix('.tar.gz')))\n"
        "build_meta.build_wheel('..')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def python(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; of this one it sees the packages that podsrl needs."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    # a checkout on the path would count as installed
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    subprocess.run([*pip, "--no-deps", "--no-index", built[1]], check=True, env=outside)
    (packages,) = folder.glob("lib/python*/site-packages")
    # what stands behind the environment's own packages; an editable podsrl there stays unread
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def names(wheel: Path) -> list[PurePosixPath]:
    with zipfile.ZipFile(wheel) as archive:
        return [PurePosixPath(name) for name in archive.namelist()]


def test_the_wheel_holds_the_library_whole_and_nothing_else(built):
    held = {name for name in names(built[1]) if not name.parts[0].endswith(".dist-info")}
    source = ROOT / "src"
    expected = {
        PurePosixPath(path.relative_to(source).as_posix())
        for path in source.rglob("*")
        if path.is_file() and (path.suffix in DATA or path.name == "py.typed")
    }
    assert held == expected
    assert {name.parts[0] for name in held} == {"podsrl"}
    assert {name.suffix for name in held} == {*DATA, ".typed"}


def test_tests_are_in_neither_and_the_sdist_has_what_the_wheel_needs(built):
    with tarfile.open(built[0]) as archive:
        held = [PurePosixPath(name).parts[1:] for name in archive.getnames()]
    assert not [parts for parts in held if parts[:1] in [("tests",), ("benchmarks",)]]
    assert {("pyproject.toml",), ("LICENSE",), ("README.md",)} <= set(held)


@pytest.fixture(scope="module")
def metadata(built: tuple[Path, Path]) -> Message:
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        return email.message_from_string(archive.read(name).decode())


def test_the_metadata_is_complete_and_the_same_everywhere(metadata):
    assert metadata["Version"] == podsrl.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Summary"]
    assert all(url.split(", ")[1].startswith("https://") for url in metadata.get_all("Project-URL"))
    assert set(metadata.get_all("Classifier")) <= trove_classifiers.classifiers
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(cited["version"]) == podsrl.__version__
    assert cited["license"] == metadata["License-Expression"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {podsrl.__version__}\n" in changes


def test_the_readme_renders_where_no_file_lies_beside_it(metadata):
    assert metadata["Description-Content-Type"] == "text/markdown"
    said = str(metadata.get_payload())
    shown = readme_renderer.render(said)
    assert shown is not None
    assert "podsrl: train on the rollouts that teach<" in shown
    targets = re.findall(r'(?:href|src)="([^"]*)"', shown)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert "](" not in re.sub("<[^>]*>", "", shown)  # no link that was left half-way


def test_the_wheel_has_no_more_lines_of_python_than_were_reached(built):
    with zipfile.ZipFile(built[1]) as archive:
        python = [name for name in archive.namelist() if name.endswith(".py")]
        lines = sum(archive.read(name).count(b"\n") for name in python)
    assert lines <= MAX_LINES


@pytest.fixture(scope="module")
def trial(python: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder, empty before, in which every command ran; and what the trial says."""
    folder = tmp_path_factory.mktemp("empty")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PODSRL"))}
    environment["PODSRL_CACHE"] = str(folder / "cache")
    done = subprocess.run(
        [python, "-B", TRIAL], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert Path(result["podsrl"]).is_relative_to(python.parents[1])
    return folder, result["loaded"]


@pytest.mark.slow
def test_every_command_runs_from_the_wheel_in_an_empty_folder(trial):
    folder, _ = trial
    assert len((folder / "kept.jsonl").read_text().splitlines()) == 2
    for file in ("demo/report.html", "report/report.html", "comparison/pods/seed-0/finished.json"):
        assert (folder / file).is_file()
    assert (
        json.loads((folder / "plan" / "recommendation.json").read_text())["recommended"]["n"] >= 2
    )


@pytest.mark.slow
def test_the_core_and_help_load_numpy_alone(trial):
    _, loaded = trial
    assert loaded["import podsrl"] == []
    assert loaded["pods --help"] == []


@pytest.mark.slow
def test_the_trl_host_loads_neither_scipy_nor_matplotlib(trial):
    _, loaded = trial
    more = loaded["import podsrl.trl"]
    assert "podsrl.trl.trainer" in more
    assert [name for name in more if name.startswith(("scipy", "matplotlib"))] == []


def test_the_installed_command_says_its_version(python):
    said = subprocess.run([python.with_name("pods"), "--version"], capture_output=True, text=True)
    assert said.stdout == f"podsrl {podsrl.__version__}\n"
