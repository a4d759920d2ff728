"""The plugin in fresh processes: found after installation with nothing else to do, and light."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")


def python(code, **environment):
    """Standard output and error of a new interpreter, far from this repository's folder."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "PYTHONPATH": "", **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_the_modes_are_there_as_soon_as_verl_has_its_trainers():
    out, _ = python(
        "from verl.trainer.ppo.v1 import get_trainer_cls\n"
        "for mode in ('pods_sync', 'pods_colocate_async', 'pods_separate_async'):\n"
        "    trainer = get_trainer_cls(mode)\n"
        "    bases = [base.__name__ for base in trainer.__mro__ if 'PPO' in base.__name__]\n"
        "    print(trainer.__module__, *bases)"
    )
    assert out.splitlines() == [
        "podsrl.verl.trainer PPOTrainerSync PPOTrainer",
        "podsrl.verl.trainer PPOTrainerColocateAsync PPOTrainer",
        "podsrl.verl.trainer PPOTrainerSeparateAsync PPOTrainer",
    ]


def test_importing_verl_alone_imports_no_trainer_and_settles_no_platform():
    """Every Ray worker imports verl, and platforms come from plugins that may load after ours."""
    out, _ = python(
        "import sys, verl\n"
        "from verl.plugin.platform import platform_manager\n"
        "print('podsrl.verl.plugin' in sys.modules, 'verl.trainer.ppo.v1' in sys.modules,"
        " platform_manager._current_platform)"
    )
    assert out == "True False None"


def test_a_plugin_that_comes_after_verls_trainers_registers_at_once():
    out, _ = python(
        "from verl.trainer.ppo.v1 import trainer_base\n"
        "before = 'pods_sync' in trainer_base.TRAINER_REGISTRY\n"
        "import podsrl.verl.plugin\n"
        "print(before, 'pods_sync' in trainer_base.TRAINER_REGISTRY)",
        VERL_USE_EXTERNAL_PLUGINS="none",
    )
    assert out == "False True"


def test_a_broken_plugin_says_why_and_leaves_verls_own_modes_alone():
    """verl swallows what plugins raise; without a traceback all one sees is "Unknown trainer"."""
    out, err = python(
        "import sys\n"
        "sys.modules['podsrl.verl.metrics'] = None\n"
        "from verl.trainer.ppo.v1 import trainer_base\n"
        "print(sorted(trainer_base.TRAINER_REGISTRY))"
    )
    assert out == "['colocate_async', 'separate_async', 'sync']"
    assert "podsrl could not register the trainer modes pods_sync" in err
    assert "Traceback" in err
    assert "podsrl.verl.metrics" in err
