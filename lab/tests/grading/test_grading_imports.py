"""The graders know nothing of tasks, models and training: they can be used without them."""

import ast
import subprocess
import sys
from pathlib import Path

import podsgrading

SOURCE = Path(podsgrading.__file__).parent
#: What they may import beside the standard library.
ALLOWED = {
    "latex2sympy2_extended",
    "numpy",
    "pebble",
    "podsgrading",
    "podsrl.errors",
    "podsrl.plugins",
    "sympy",
}


def imported_modules(path):
    """Every module that a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield str(node.module)


def may_be_imported(module):
    package = module.partition(".")[0]
    return package in sys.stdlib_module_names or package in ALLOWED or module in ALLOWED


def test_graders_import_mathematics_errors_and_plugins_and_nothing_else():
    refused = [
        f"{path.relative_to(SOURCE)}: {module}"
        for path in SOURCE.rglob("*.py")
        for module in imported_modules(path)
        if not may_be_imported(module)
    ]
    assert refused == []


def test_all_graders_together_load_neither_torch_nor_a_trainer_nor_the_laboratory():
    modules = [
        ".".join(("podsgrading", *path.relative_to(SOURCE).with_suffix("").parts))
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert "podsgrading.math.warm" in modules
    code = (
        f"import importlib, sys; [importlib.import_module(name) for name in {modules!r}];"
        "print(sys.modules.keys() & {'torch', 'trl', 'transformers', 'datasets', 'podslab'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
