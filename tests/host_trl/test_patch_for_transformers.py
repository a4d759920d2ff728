"""contrib/transformers-input-hooks: its test fails on the installed transformers until patched."""

import ast
import importlib
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import transformers
from transformers import PreTrainedModel, modeling_utils

FOLDER = Path(__file__).parents[2] / "contrib" / "transformers-input-hooks"
TESTS = {
    name: test
    for name, test in runpy.run_path(str(FOLDER / "tests" / "test_input_hooks.py")).items()
    if name.startswith("test_")
}
#: What holds before the patch as well, and must not be lost by it.
UNCHANGED = {
    "test_inputs_still_require_grads_after_it_was_called_twice",
}

pytestmark = [
    pytest.mark.skipif(
        transformers.__version__ != "5.23.0", reason="the patch is against transformers 5.23.0"
    ),
    pytest.mark.skipif(shutil.which("git") is None, reason="git applies the patch"),
]


@pytest.fixture
def patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed transformers with the patched method."""
    source = Path(str(modeling_utils.__file__))
    copy = tmp_path / "src" / "transformers" / source.name
    copy.parent.mkdir(parents=True)
    shutil.copy(source, copy)
    patch = FOLDER / "replace-input-hooks.patch"
    words = ["git", "apply", "--unidiff-zero", str(patch)]
    subprocess.run(words, cwd=tmp_path, check=True)

    name = "enable_input_require_grads"
    monkeypatch.setattr(PreTrainedModel, name, _method(copy.read_text("utf-8"), name))


def _method(source: str, name: str) -> Any:
    """A method of a module's source, with that module's names."""
    [found] = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    code = compile(ast.Module([found], []), source.partition("\n")[0], "exec")
    made: dict[str, Any] = {}
    exec(code, vars(importlib.import_module("transformers.modeling_utils")), made)
    return made[name]


@pytest.mark.parametrize("name", TESTS)
def test_with_the_patch_the_test_passes(name, patched):
    TESTS[name]()


@pytest.mark.parametrize("name", sorted(set(TESTS) - UNCHANGED))
def test_without_it_the_test_fails(name):
    with pytest.raises(AssertionError):
        TESTS[name]()
