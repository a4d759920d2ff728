"""The library's wheel: what it holds and says of itself; `nox -s package` tries it alone."""

import email
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest
import yaml

import podsrl

readme_renderer = pytest.importorskip("readme_renderer.markdown")
trove_classifiers = pytest.importorskip("trove_classifiers")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An sdist, and the wheel that is built from what the sdist holds."""
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"  # a build leaves files where it runs
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for room in ("src", "lab", "tests", "benchmarks"):
        shutil.copytree(ROOT / room, tree / room, ignore=ignored)
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)

    code = (
        "import os, shutil; from pathlib import Path; from setuptools import build_meta\n"
        "sdist = Path('..', build_meta.build_sdist('..')).resolve()\n"
        "shutil.unpack_archive(sdist, '..')\n"
        "os.chdir(sdist.with_name(sdist.name.removesuffix('.tar.gz')))\n"
        "build_meta.build_wheel('..')"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def test_the_wheel_holds_the_library_whole_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = map(PurePosixPath, archive.namelist())
    held = {name for name in names if not name.parts[0].endswith(".dist-info")}
    source = ROOT / "src"
    expected = {
        PurePosixPath(path.relative_to(source).as_posix())
        for path in (source / "podsrl").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == expected


def test_the_sdist_has_what_the_wheel_needs_and_neither_tests_nor_the_lab(built):
    with tarfile.open(built[0]) as archive:
        held = [PurePosixPath(name).parts[1:] for name in archive.getnames()]
    assert {parts[0] for parts in held if parts} & {"tests", "benchmarks", "lab"} == set()
    assert {("pyproject.toml",), ("LICENSE",), ("README.md",)} <= set(held)


@pytest.fixture(scope="module")
def metadata(built: tuple[Path, Path]) -> Message:
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        return email.message_from_string(archive.read(name).decode())


def test_the_metadata_is_complete_and_the_version_is_the_same_everywhere(metadata):
    assert metadata["Version"] == podsrl.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert all(url.split(", ")[1].startswith("https://") for url in metadata.get_all("Project-URL"))
    assert set(metadata.get_all("Classifier")) <= trove_classifiers.classifiers
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(cited["version"]) == podsrl.__version__
    lab = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lab["version"] == podsrl.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {podsrl.__version__}\n" in changes


def test_the_readme_renders_where_no_file_lies_beside_it(metadata):
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown = readme_renderer.render(str(metadata.get_payload()))
    assert shown is not None
    assert "podsrl: generate many rollouts, train on the few that teach<" in shown
    targets = re.findall(r'(?:href|src)="([^"]*)"', shown)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert "](" not in re.sub("<[^>]*>", "", shown)  # no link that was left half-way
