"""`nox -s versions` and `nox -s canary`: the hosts' tests in environments of other versions.

    python tests/versions.py [NAME ...] [--tests PATH ...] [--pip WORD ...]

The environments stand in requirements/versions.toml. Each is made in .venv-versions/NAME, once; at
the end stands a Markdown table of what passed. The names canary-* install the newest releases, and
say which names that podsrl relies on have moved, to paste into an issue. `--pip` gives pip more
words, such as `torch==2.13.0` where the newest torch should not be installed.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "requirements" / "versions.toml"
HOME = ROOT / ".venv-versions"
TOLD = ("trl", "verl", "transformers", "torch", "datasets", "accelerate", "peft", "numpy")
HOSTS = ("trl", "verl", "transformers", "accelerate", "peft", "tensordict", "transfer_queue")
WARNED = ("error::DeprecationWarning:podsrl", "error::FutureWarning:podsrl")


def newest(extra: str) -> list[str]:
    """The names of what podsrl with an extra, and its laboratory, need, without any bounds."""
    library = _project(ROOT)
    wanted = [f"podsrl[{extra}]", *library["dependencies"]]
    if extra == "dev":
        wanted += _project(ROOT / "lab")["dependencies"]

    # An extra may name others, such as podsrl[trl,inspect].
    found: dict[str, None] = {}
    while wanted:
        one = _name(wanted.pop())
        if not one.startswith("podsrl["):
            found[one] = None
            continue
        for name in one.removeprefix("podsrl[").rstrip("]").split(","):
            wanted += library["optional-dependencies"][name]
    return list(found)


def _project(folder: Path) -> dict[str, Any]:
    read = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(read["project"])


def _name(requirement: str) -> str:
    match = re.match(r"[\w.-]+(\[[\w,-]+\])?", requirement)
    assert match, requirement
    return match[0]


def make(name: str, spec: Mapping[str, object], words: Sequence[str]) -> Path:
    """The environment's Python; made anew if the spec is not the one that it was made by."""
    folder = HOME / name
    python = folder / "bin" / "python"
    made = folder / "made.json"
    made_by = json.dumps([spec, *words])
    if made.is_file() and made.read_text() == made_by and "newest" not in spec:
        return python

    shutil.rmtree(folder, ignore_errors=True)
    print(f"{name}: making its environment, some minutes", flush=True)
    subprocess.run([f"python{spec['python']}", "-m", "venv", folder], check=True)

    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--upgrade", "pip"], check=True)
    if "newest" in spec:
        subprocess.run([*pip, *words, *newest(str(spec["newest"])), "pytest"], cwd=ROOT, check=True)
        subprocess.run([*pip, "--no-deps", "-e", ".", "-e", "lab"], cwd=ROOT, check=True)
    else:
        subprocess.run([*pip, *words, *spec["install"]], cwd=ROOT, check=True)  # type: ignore[misc]

    made.write_text(made_by)
    return python


def run_tests(
    python: Path, spec: Mapping[str, object], tests: Sequence[str]
) -> ElementTree.Element:
    """What pytest writes as JUnit XML. Warnings of others' versions are no failures."""
    results = python.parents[1] / "results.xml"
    results.unlink(missing_ok=True)

    command = [python, "-m", "pytest", "-q", "--tb=short", f"--junitxml={results}", "-W", "ignore"]
    for warned in WARNED:
        command += ["-W", warned]
    environment = {**os.environ, **spec.get("environment", {})}  # type: ignore[dict-item]
    done = subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.STDOUT,
    )
    print(done.stdout)

    if results.is_file():
        return ElementTree.parse(results).getroot()

    # Not even collected: that is one test with an error.
    suite = ElementTree.Element("testsuite", tests="1", errors="1")
    case = ElementTree.SubElement(suite, "testcase", name="test_collecting the tests")
    why = [line[1:].strip() for line in done.stdout.splitlines() if line.startswith("E  ")]
    ElementTree.SubElement(case, "error", message=(why or ["pytest wrote no results"])[-1])
    return suite


def imported(folder: Path = ROOT / "src" / "podsrl") -> list[tuple[str, str]]:
    """What the library takes from its hosts: (module, name), each once."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] in HOSTS:
                found |= {(node.module, taken.name) for taken in node.names}
    return sorted(found)


def gone(python: Path, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Those that an environment's hosts do not have; hosts that it lacks are left out."""
    code = (
        "import importlib, importlib.util, json\n"
        f"for module, name in {list(pairs)!r}:\n"
        "    if importlib.util.find_spec(module.split('.')[0]) is None: continue\n"
        "    try: there = hasattr(importlib.import_module(module), name)\n"
        "    except ImportError: there = False\n"
        "    if not there: print('gone', module + '.' + name)"
    )
    said = subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True)
    return [line.removeprefix("gone ") for line in said.stdout.splitlines() if line[:5] == "gone "]


def versions(python: Path) -> dict[str, str]:
    """The versions of Python and of the packages that matter."""
    code = (
        "import json, platform, importlib.metadata as m\n"
        f"names = {TOLD!r}\n"
        "there = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({'Python': platform.python_version(),"
        " **{n: there[n] for n in names if n in there}}))"
    )
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(said.stdout))


def counts(results: ElementTree.Element) -> dict[str, int]:
    """How many tests passed, failed and were skipped."""
    (suite,) = results.iter("testsuite")
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skipped = int(suite.get("skipped", 0))
    passed = int(suite.get("tests", 0)) - failed - skipped
    return {"passed": passed, "failed": failed, "skipped": skipped}


def moved(
    results: ElementTree.Element, found: Mapping[str, str], missing: Sequence[str] = ()
) -> str:
    """The issue to file: the pinned names that are not as they were, each with what was found."""
    lines = [f"| `{name}` | gone: podsrl imports it |" for name in missing]
    for case in results.iter("testcase"):
        what = _what_is_tested(str(case.get("name")))
        for problem in [*case.findall("failure"), *case.findall("error")]:
            said = " ".join(str(problem.get("message", "")).split())[:300].replace("|", "\\|")
            lines.append(f"| {what} | {said} |")

    told = _in_words(found)
    if not lines:
        return f"Nothing that podsrl relies on has moved in {told}.\n"

    title = f"{len(lines)} thing{'s' * (len(lines) > 1)} that podsrl relies on moved"
    return "\n".join(
        [
            f"## {title}",
            "",
            f"Found with {told}.",
            "",
            "| pinned | what was found |",
            "|---|---|",
            *lines,
            "",
        ]
    )


def _what_is_tested(test: str) -> str:
    """The pinned name of a test that has it as its parameter; else what the test's name says."""
    pinned = re.search(r"\[([\w.]+?)(?:-[a-z]+\d+)?\]$", test)
    return f"`{pinned[1]}`" if pinned else test.removeprefix("test_").replace("_", " ")


def _in_words(found: Mapping[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in found.items())


def main(argv: Sequence[str]) -> int:
    """Make and test environments; 1 if a test failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tests", nargs="+", help="in place of those that the file names")
    parser.add_argument("--pip", nargs="+", default=[], metavar="WORD")
    args = parser.parse_args(argv)
    specs = tomllib.loads(SPECS.read_text(encoding="utf-8"))

    rows = ["| environment | versions | tests |", "|---|---|---|"]
    reports = []
    failed = 0
    for name in args.names or [name for name in specs if not name.startswith("canary")]:
        spec = specs[name]
        if shutil.which(f"python{spec['python']}") is None:
            rows.append(f"| `{name}` | python{spec['python']} is not on this machine | not run |")
            continue

        python = make(name, spec, args.pip)
        results = run_tests(python, spec, args.tests or spec["tests"])
        found = versions(python)
        tests = counts(results)
        failed += tests["failed"]
        told = ", ".join(f"{count} {what}" for what, count in tests.items() if count)
        rows.append(f"| `{name}` | {_in_words(found)} | {told} |")
        if name.startswith("canary"):
            reports.append(moved(results, found, gone(python, imported())))

    print("\n".join(["", *rows, "", *reports]))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
