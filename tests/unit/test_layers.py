"""CONTRIBUTING.md's table of the rooms, checked on every import of the library."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "podsrl"
HOSTS = {"trl", "verl", "slime"}
#: Names that several modules have, because each is that thing for its room.
SHARED_NAMES = {
    "settings": "what the embedded model and verl's trainer are given",
    "trainer": "the trainer of each host",
    "metrics": "what each host logs",
    "rounds": "how each host generates in rounds",
    "math": "the task, and what grades its answers",
}


def name_of(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted(SRC.rglob("*.py"))}


def room(module: str) -> str:
    """podsrl.trl.config -> trl; the package itself, for its version and public names, is podsrl."""
    return [*module.split("."), "podsrl"][1]


@cache
def imports() -> dict[str, set[str]]:
    """The modules of ours that each module imports, wherever the import stands."""
    found = defaultdict(set)
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}: imports are written from the root"
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                continue
            for target in targets:
                if target not in MODULES:
                    target = target.rpartition(".")[0]
                if target in MODULES:
                    found[name].add(target)
    return found


def layers() -> list[list[str]]:
    """The rooms of each row of the table, from the top."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("**Arrows point down:**")[1].split("\n\n")[1]
    rows = [re.findall(r"`([\w.]+)/?`", line.split("|")[1]) for line in table.splitlines()[2:]]
    return [[name.removesuffix(".py") for name in row] for row in rows]


def test_the_table_of_the_rooms_is_complete():
    listed = [name for row in layers() for name in row]
    assert sorted(listed) == sorted({room(name) for name in MODULES} - {"podsrl"})


def test_imports_point_down_only():
    depth = {name: level for level, row in enumerate(layers()) for name in row}
    upward = [
        f"{module} -> {target}"
        for module, targets in imports().items()
        for target in targets
        if room(module) != room(target) and "podsrl" not in (room(module), room(target))
        and depth[room(target)] <= depth[room(module)]
    ]  # fmt: skip
    assert upward == []


def test_no_import_cycle_is_anywhere():
    tuple(TopologicalSorter(imports()).static_order())  # raises CycleError, with the cycle


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_a_host_knows_nothing_of_tasks_graders_or_other_hosts(host):
    known = {room(t) for module, ts in imports().items() if room(module) == host for t in ts}
    assert known & {"tasks", "grading", "tiny", "experiments", *HOSTS - {host}} == set()


def test_nothing_below_the_commands_prints_to_standard_output():
    prints = [
        f"{name}:{node.lineno}"
        for name, path in MODULES.items()
        if room(name) != "cli"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
        and "file" not in [keyword.arg for keyword in node.keywords]
    ]  # fmt: skip
    assert prints == []


def test_no_two_modules_have_one_name_without_a_reason():
    counts = Counter(name.rpartition(".")[2] for name in MODULES)
    top = {"podsrl", *(room(name) for name in MODULES)}
    shared = {name for name, count in counts.items() if count > 1 and name not in top}
    assert shared == set(SHARED_NAMES)


def test_a_room_and_a_module_elsewhere_have_different_names():
    rooms = {room(name) for name in MODULES} - {"cli"}
    # a command's file has the command's name
    modules = {n.rpartition(".")[2] for n in MODULES if n.count(".") > 1 and room(n) != "cli"}
    assert rooms & modules == set()
