"""A release by one command: checks, notes from the changelog, and a signed tag.

python release.py 0.3.0             # says what is wrong, or what it would do
python release.py 0.3.0 --tag       # and makes the tag; it pushes and uploads nothing

The heading `## Not yet released` of the changelog becomes `## 0.3.0` by hand, as do the versions.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent

#: The files that say the version, and how they say it.
VERSIONS = {
    "src/podsrl/__init__.py": r'^__version__ = "(.+)"$',
    "lab/pyproject.toml": r'^version = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "contrib/conda-forge/recipe.yaml": r'^  version: "(.+)"$',
}
#: Of longer notes nobody reads the end.
MOST_WORDS = 1_500


def notes_of(changelog: str, version: str) -> str:
    """What the changelog says of a version; "" where it has no such heading."""
    found = re.search(
        rf"^## {re.escape(version)}\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE
    )
    return found[1].strip() if found is not None else ""


def problems(root: Path, version: str) -> list[str]:
    """What is in the way of releasing the files in a folder as this version."""
    found = []
    if re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?", version) is None:
        found.append(f"{version!r} is no version such as 0.3.0 or 0.3.0rc1")
    for name, pattern in VERSIONS.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        if match is None or match[1] != version:
            found.append(f"{name} says {match[1] if match else 'no version'}, and not {version}")

    notes = notes_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if not notes:
        found.append(f"CHANGELOG.md has no heading '## {version}', or nothing below it")
    elif len(notes.split()) > MOST_WORDS:
        found.append(f"the notes have {len(notes.split())} words; write at most {MOST_WORDS}")
    return found


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Check, write `dist/notes.md`, and make the tag if that is wanted."""
    parser = argparse.ArgumentParser(prog="python release.py", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--tag", action="store_true", help="make the signed tag")
    args = parser.parse_args(argv)

    found = problems(root, args.version)
    changed = _git(root, "status", "--porcelain")
    if changed:
        found.append(f"files are changed: {', '.join(changed.split()[1::2])}")
    if found:
        print("\n".join(found), file=sys.stderr)
        return 1

    notes = root / "dist" / "notes.md"
    notes.parent.mkdir(exist_ok=True)
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    notes.write_text(notes_of(changelog, args.version) + "\n", encoding="utf-8")
    print(f"{notes} has the notes; nox -s package leaves the wheels beside them")

    name = f"v{args.version}"
    command = ["tag", "--sign", "--cleanup=verbatim", "--file", str(notes), name]
    if args.tag:
        _git(root, *command)
        print(f"{name} is made; git push origin {name} publishes it")
    else:
        print(f"with --tag: git {' '.join(command)}")
    return 0


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
