"""Imports inside the library go down only."""

import ast
from pathlib import Path

import pytest

import podsrl
from support.layers import imports_that_go_up, places

PACKAGE = Path(podsrl.__file__).parent
#: The highest first; those of one layer know nothing of each other.
LAYERS = [
    ["cli"],
    ["inspector"],
    ["trl", "verl", "slime", "tinker"],
    ["hosts"],
    ["methods", "rollout_log"],
    ["selection"],
    ["metrics"],
    ["advantages", "rules"],
    ["rewards", "arrays", "plugins"],
    ["errors"],
]


def test_every_module_has_its_layer():
    assert places(PACKAGE) <= {name for layer in LAYERS for name in layer}


def test_an_import_goes_down():
    assert imports_that_go_up(PACKAGE, LAYERS) == []


def test_an_import_that_goes_up_or_aside_is_found(tmp_path):
    package = tmp_path / "package"
    (package / "low").mkdir(parents=True)
    (package / "high.py").write_text("from package.low import module\nfrom package import beside\n")
    (package / "beside.py").write_text("import os\nimport package.low.module\n")
    (package / "low" / "module.py").write_text("def f():\n    from package.high import g\n")
    assert imports_that_go_up(package, [["high", "beside"], ["low"]]) == [
        "high.py imports beside",
        "low/module.py imports high",
    ]


@pytest.mark.parametrize("other", ["podslab", "benchmarks"])
def test_the_library_knows_nothing_of_what_stands_on_it(other):
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert all(alias.name.split(".")[0] != other for alias in node.names), path
            if isinstance(node, ast.ImportFrom):
                assert str(node.module).split(".")[0] != other, path
