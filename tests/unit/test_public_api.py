"""What users may rely on: the public names, changed on purpose, with a line in CHANGELOG."""

import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import podsrl
from podsrl.errors import InvalidInputError

NAMES = {
    "__version__",
    "downsample",
    "downsample_batch",
    "group_advantages",
    "inspect",
    "is_decided",
    "is_decided_batch",
    "register_rule",
    "rollouts",
    "rule",
    "METHODS",
    "PodsError",
    "RULES",
    "Selection",
}
NAMES_OF_TRL = {"PODSConfig", "PODSRolloutWorker", "PODSTrainer"}


def test_the_public_names_are_these():
    assert set(podsrl.__all__) == NAMES


def test_the_public_names_of_the_trl_host_are_these():
    pytest.importorskip("trl")
    import podsrl.trl

    assert set(podsrl.trl.__all__) == NAMES_OF_TRL


def test_importing_the_library_imports_neither_torch_nor_a_trainer_nor_the_lab():
    code = (
        "import sys, podsrl; podsrl.downsample([0.0, 1.0], 1);"
        "print(sys.modules.keys() &"
        " {'torch', 'trl', 'verl', 'transformers', 'podsgrading', 'podslab'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr


def test_without_trl_its_host_says_what_to_install():
    code = "import sys; sys.modules['trl'] = None; import podsrl.trl"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("podsrl.errors.MissingDependencyError: this needs trl")
    assert "'trl<" in last


def test_no_file_of_the_library_imports_the_lab_or_what_only_the_lab_needs():
    source = Path(podsrl.__file__).parent
    found = [
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(import|from) (podsgrading|podslab|scipy|matplotlib)\b", line)
    ]
    assert found == []


def test_errors_are_of_one_tree_and_those_of_arguments_are_value_errors():
    assert issubclass(InvalidInputError, podsrl.PodsError)
    assert issubclass(InvalidInputError, ValueError)
    with pytest.raises(podsrl.PodsError):
        podsrl.downsample([[0.0, 1.0]], m=3)


def test_verl_finds_its_plugin_by_an_entry_point_and_the_command_is_pods():
    points = {(p.group, p.name): p.value for p in distribution("podsrl").entry_points}
    assert points == {
        ("console_scripts", "pods"): "podsrl.cli:main",
        ("verl.plugins", "podsrl"): "podsrl.verl.plugin",
    }
