"""The launch script for eight GPUs: verl accepts it, and it trains what its comments say."""

import subprocess
import sys

import pytest

pytest.importorskip("verl", reason="verl is not installed; run `make test-verl`")

import hydra
from cpu_run import SCRIPT
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.utils.config import validate_config
from verl.utils.reward_score import default_compute_score


def arguments(tmp_path, *more):
    """What the script passes to Python."""
    echo = tmp_path / "python"
    echo.write_text(f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:], sep='\\n')\n")
    echo.chmod(0o755)
    script = ["bash", str(SCRIPT), *more]
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(echo), "HOME": str(tmp_path)}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.filterwarnings("ignore:Disabled critic:UserWarning")
def test_verl_and_we_accept_the_config_of_the_script(tmp_path):
    minus_m, module, *overrides = arguments(tmp_path, "trainer.total_epochs=3")
    assert (minus_m, module) == ("-m", "verl.trainer.main_ppo")
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer", overrides)
    validate_config(config, need_reference_policy(config), need_critic(config))
    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    assert config.trainer.total_epochs == 3
    n, prompts = config.actor_rollout_ref.rollout.n, config.data.train_batch_size
    assert trainer.pods_options.scope == "batch"
    said = f"selected {trainer.pods_options.m} of {n} on average in {prompts} groups"
    assert said in SCRIPT.read_text()
    trainer.global_steps = 1
    rows = config.data.train_batch_size * trainer.pods_options.m
    assert f"the update sees {rows} rows" in SCRIPT.read_text()
    with trainer._pods_update_sees_m():
        assert rows % trainer._get_required_batch_multiple(dp_size=8) == 0  # nothing is padded


def test_verls_own_reward_function_knows_gsm8k():
    answer = "She makes 9 * 2 = 18 dollars.\n#### 18"
    assert default_compute_score("openai/gsm8k", answer, "18") == 1.0
    assert default_compute_score("openai/gsm8k", answer, "19") == 0.0
