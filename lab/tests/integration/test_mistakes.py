"""Whatever a user mistypes: exit code 2, one line, nothing left or changed, and no torch for it."""

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl")

from podslab.training.fields import BOUNDS, Bounds, known_fields

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
def test_every_mistake_is_one_line_leaves_nothing_and_imports_no_torch(tmp_path, record_property):
    command = [sys.executable, "-m", "support.mistakes", str(tmp_path)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    print(f"{result['tried']} mistakes tried")
    record_property("mistakes", result["tried"])
    assert result["wrong"] == {}
    assert result["tried"] > 2000


def test_only_these_numbers_may_be_negative_or_zero():
    numbers = {
        name: BOUNDS.get(name, Bounds())
        for name, field in known_fields().items()
        if {"int", "float"} & set(field.kinds) and "str" not in field.kinds
    }
    assert {name for name, bounds in numbers.items() if -1 in bounds} == {
        *("max_steps", "local_rank", "top_k"),  # -1: none
        *("entropy_coef", "entropy_coef_min", "entropy_coef_max"),
    }
    for name in (
        "per_device_train_batch_size",
        "max_completion_length",
        "temperature",
        "max_steps",
    ):
        assert 0 not in numbers[name]
    assert 0 in numbers["learning_rate"]  # `pods recommend` measures at that
    assert not any(float("nan") in bounds for bounds in numbers.values())


def test_the_fields_that_are_read_from_source_files_are_those_of_the_classes():
    from trl import ModelConfig

    from podslab.training.run_arguments import RunArguments
    from podsrl.trl import PODSConfig

    found = known_fields()
    real = {
        field.name: field
        for kind in (PODSConfig, ModelConfig, RunArguments)
        for field in dataclasses.fields(kind)
    }
    assert found.keys() == real.keys()
    for name, field in real.items():
        if name != "optim":  # depends on torch's version
            assert found[name].default == (
                None if field.default is dataclasses.MISSING else field.default
            ), name
        if found[name].owner in ("RunArguments", "PODSConfig"):  # those that --help shows
            assert found[name].help == field.metadata["help"], name


def test_the_words_of_the_loss_are_those_that_trls_trainer_compares_with():
    from trl import GRPOTrainer

    source = inspect.getsource(GRPOTrainer._compute_loss)
    compared = re.findall(r"self\.loss_type (?:==|in) (\[[^]]*\]|\"\w+\")", source)
    words = {word for text in compared for word in re.findall(r"\"(\w+)\"", text)}
    assert words == set(known_fields()["loss_type"].choices)
