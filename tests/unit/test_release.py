"""`python release.py`: what it refuses, and the notes that it takes out of the changelog."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import release

ROOT = Path(release.__file__).parent

CHANGELOG = """# Changelog

## 9.9.9

First.

### New

A thing.

## 0.1.0

Old.
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that is ready for 9.9.9."""
    for name, pattern in release.VERSIONS.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        found = re.search(pattern, text, re.MULTILINE)
        assert found is not None
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(found[0], found[0].replace(found[1], "9.9.9")))
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("dist\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.skipif(shutil.which("git") is None, reason="it asks git")
def test_the_notes_are_what_the_changelog_says_of_the_version(checkout, capsys):
    assert release.main(["9.9.9"], checkout) == 0
    assert (checkout / "dist" / "notes.md").read_text() == "First.\n\n### New\n\nA thing.\n"
    assert "with --tag: git tag --sign" in capsys.readouterr().out
    tags = subprocess.run(["git", "tag"], cwd=checkout, capture_output=True, text=True, check=True)
    assert tags.stdout == ""


@pytest.mark.skipif(shutil.which("git") is None, reason="it asks git")
@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("CITATION.cff", "version: 1.0.0\n", "CITATION.cff says 1.0.0, and not 9.9.9"),
        ("lab/pyproject.toml", "", "lab/pyproject.toml says no version"),
        ("CHANGELOG.md", "## 9.9.8\n\nx\n", "CHANGELOG.md has no heading '## 9.9.9'"),
        ("CHANGELOG.md", "## 9.9.9\n\n## 0.1.0\n\nx\n", "or nothing below it"),
        ("CHANGELOG.md", f"## 9.9.9\n\n{'x ' * 2_000}\n", "the notes have 2000 words"),
    ],
)
def test_what_is_not_ready_is_told_and_nothing_is_written(checkout, file, text, says, capsys):
    (checkout / file).write_text(text)
    assert release.main(["9.9.9"], checkout) == 1
    said = capsys.readouterr().err
    assert says in said
    assert f"files are changed: {file}" in said
    assert not (checkout / "dist").exists()


@pytest.mark.parametrize("version", ["9.9", "v9.9.9", "9.9.9-1", "next", ""])
def test_what_is_no_version_is_told(version):
    assert any("is no version" in line for line in release.problems(ROOT, version))
