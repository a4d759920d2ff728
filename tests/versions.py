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
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "requirements" / "versions.toml"
HOME = ROOT / ".venv-versions"
TOLD = ("trl", "verl", "transformers", "torch", "datasets", "accelerate", "peft", "numpy")
HOSTS = ("trl", "verl", "transformers", "accelerate", "peft", "tensordict", "transfer_queue")
WARNED = ("error::DeprecationWarning:podsrl", "error::FutureWarning:podsrl")


def newest(extra: str) -> list[str]:
    """The names of what podsrl with an extra, and its laboratory, need, without any bounds."""
    library, lab = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in (".", "lab")
    )
    wanted = [f"podsrl[{extra}]", *library["dependencies"]]
    wanted += lab["dependencies"] if extra == "dev" else []
    found: dict[str, None] = {}
    while wanted:
        one = _name(wanted.pop())
        if not one.startswith("podsrl["):
            found[one] = None
            continue
        for name in one.removeprefix("podsrl[").rstrip("]").split(","):
            wanted += library["optional-dependencies"][name]
    return list(found)


def _name(requirement: str) -> str:
    match = re.match(r"[\w.-]+(\[[\w,-]+\])?", requirement)
    assert match, requirement
    return match[0]


def make(name: str, spec: Mapping[str, object], words: Sequence[str]) -> Path:
    """The environment's Python; made anew if the spec is not the one that it was made by."""
    folder = HOME / name
    python, made = folder / "bin" / "python", folder / "made.json"
    told = json.dumps([spec, *words])
    if made.is_file() and made.read_text() == told and "newest" not in spec:
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
    made.write_text(told)
    return python


def run_tests(
    python: Path, spec: Mapping[str, object], tests: Sequence[str]
) -> ElementTree.Element:
    """What pytest writes as JUnit XML. Warnings of others' versions are no failures."""
    results = python.parents[1] / "results.xml"
    results.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", "--tb=short", f"--junitxml={results}"]
    ignored = ["-W", "ignore", *(word for one in WARNED for word in ("-W", one))]
    environment = {**os.environ, **spec.get("environment", {})}  # type: ignore[dict-item]
    words = [*command, *ignored, *tests]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.STDOUT,
    )
    print(done.stdout)
    if results.is_file():
        return ElementTree.parse(results).getroot()
    suite = ElementTree.Element("testsuite", tests="1", errors="1")  # not even collected
    case = ElementTree.SubElement(suite, "testcase", name="test_collecting the tests")
    why = [line[1:].strip() for line in done.stdout.splitlines() if line.startswith("E  ")]
    ElementTree.SubElement(case, "error", message=(why or ["pytest wrote no results"])[-1])
    return suite


def imported(folder: Path = ROOT / "src" / "podsrl") -> list[tuple[str, str]]:
    """What the library takes from its hosts: (module, name), each once."""
    nodes = (
        node
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )
    froms = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module)
    pairs = ((str(node.module), one.name) for node in froms for one in node.names)
    return sorted({pair for pair in pairs if pair[0].split(".")[0] in HOSTS})


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
    total, *rest = (int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped"))
    return {"passed": total - sum(rest), "failed": rest[0] + rest[1], "skipped": rest[2]}


def moved(
    results: ElementTree.Element, found: Mapping[str, str], missing: Sequence[str] = ()
) -> str:
    """The issue to file: the pinned names that are not as they were, each with what was found."""
    lines = [f"| `{name}` | gone: podsrl imports it |" for name in missing]
    for case in results.iter("testcase"):
        for problem in [*case.findall("failure"), *case.findall("error")]:
            name = str(case.get("name"))
            pinned = re.search(r"\[([\w.]+?)(?:-[a-z]+\d+)?\]$", name)
            what = f"`{pinned[1]}`" if pinned else " ".join(name.removeprefix("test_").split("_"))
            said = " ".join(str(problem.get("message", "")).split())[:300].replace("|", "\\|")
            lines.append(f"| {what} | {said} |")
    told = ", ".join(f"{name} {version}" for name, version in found.items())
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


def main(argv: Sequence[str]) -> int:
    """Make and test environments; 1 if a test failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tests", nargs="+", help="in place of those that the file names")
    parser.add_argument("--pip", nargs="+", default=[], metavar="WORD")
    args = parser.parse_args(argv)
    specs = tomllib.loads(SPECS.read_text(encoding="utf-8"))
    rows, reports, failed = [], [], 0
    for name in args.names or [name for name in specs if not name.startswith("canary")]:
        spec = specs[name]
        if shutil.which(f"python{spec['python']}") is None:
            rows.append(f"| `{name}` | python{spec['python']} is not on this machine | not run |")
            continue
        python = make(name, spec, args.pip)
        results = run_tests(python, spec, args.tests or spec["tests"])
        found, of = versions(python), counts(results)
        failed += of["failed"]
        told = ", ".join(f"{package} {version}" for package, version in found.items())
        rows.append(f"| `{name}` | {told} | {', '.join(f'{v} {k}' for k, v in of.items() if v)} |")
        if name.startswith("canary"):
            reports.append(moved(results, found, gone(python, imported())))
    print(
        "\n".join(["", "| environment | versions | tests |", "|---|---|---|", *rows, "", *reports])
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
