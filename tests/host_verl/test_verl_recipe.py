"""The launch scripts for eight GPUs: verl accepts them, and they train what is said of them."""

import re
import subprocess
import sys

import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

import hydra
from cpu_run import SCRIPT
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.utils.config import validate_config
from verl.utils.reward_score import default_compute_score

CONTRIB = SCRIPT.parents[1] / "contrib" / "verl-recipe" / "recipe" / "pods"
SAYING = {SCRIPT: SCRIPT, CONTRIB / "run_gsm8k.sh": CONTRIB / "README.md"}


def arguments(tmp_path, *more, script=SCRIPT, **variables):
    """What a script passes to Python."""
    echo = tmp_path / "python"
    echo.write_text(f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:], sep='\\n')\n")
    echo.chmod(0o755)
    command = ["bash", str(script), *more]
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(echo), "HOME": str(tmp_path), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.filterwarnings("ignore:Disabled critic:UserWarning")
@pytest.mark.parametrize("script", SAYING, ids=lambda script: script.name)
def test_verl_and_we_accept_the_config_of_the_script(script, tmp_path):
    minus_m, module, *overrides = arguments(tmp_path, "trainer.total_epochs=3", script=script)
    assert (minus_m, module) == ("-m", "verl.trainer.main_ppo")
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer", overrides)
    validate_config(config, need_reference_policy(config), need_critic(config))
    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    assert config.trainer.total_epochs == 3
    selection = trainer.pods_selection
    assert (selection.rule, selection.baseline) == ("max_variance", "kept")  # the paper's method

    n = config.actor_rollout_ref.rollout.n
    prompts = config.data.train_batch_size
    rows = prompts * selection.num_kept
    text = SAYING[script].read_text()
    assert f"selected {selection.num_kept} of {n} in {prompts} groups" in text
    assert f"the update sees {rows} rows" in text

    trainer.global_steps = 1
    config.actor_rollout_ref.rollout.n = selection.num_kept  # as it is while verl sizes the update
    assert rows % trainer._get_required_batch_multiple(dp_size=8) == 0  # nothing is padded


@pytest.mark.filterwarnings("ignore:Disabled critic:UserWarning")
def test_the_papers_sizes_are_those_of_the_comment(tmp_path):
    comment = SCRIPT.read_text().split("# The data and the reward")[0]
    given = re.findall(r"[a-z_0-9.]+=(?:\d+|5e-6)(?= |$)", comment.replace(" \\\n", " "), re.M)
    m, *others = given
    assert m == "trainer.v1.pods_sync.m=32"
    assert len(others) == 4

    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer", arguments(tmp_path, *given)[2:])
    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    assert (trainer.pods_selection.num_kept, config.actor_rollout_ref.rollout.n) == (32, 128)
    assert config.data.train_batch_size == config.actor_rollout_ref.actor.ppo_mini_batch_size == 16
    assert config.actor_rollout_ref.actor.optim.lr == 5e-6


@pytest.mark.filterwarnings("ignore:Disabled critic:UserWarning")
def test_the_settings_that_the_page_for_verl_recipe_names_are_accepted(tmp_path):
    named = re.findall(
        r"\| `([A-Z][^`]+)`(?:, and `([^`]+)`)?", SAYING[CONTRIB / "run_gsm8k.sh"].read_text()
    )
    assert len(named) == 2

    found = []
    for variables, more in named:
        given = dict(word.split("=") for word in variables.split())
        script = CONTRIB / "run_gsm8k.sh"
        overrides = arguments(tmp_path, *more.split(), script=script, **given)[2:]
        with hydra.initialize_config_module("verl.trainer.config", version_base=None):
            config = hydra.compose("ppo_trainer", overrides)

        trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
        selection = getattr(trainer, "pods_selection", None)
        n = config.actor_rollout_ref.rollout.n
        kept_of_each = selection.num_kept if selection else n
        rows = config.data.train_batch_size * kept_of_each
        found.append((n, rows, selection and selection.rule))

    assert found == [(128, 512, "max_variance"), (16, 512, None)]


def test_verl_takes_a_reward_function_by_the_key_of_the_docs(tmp_path):
    page = SCRIPT.parents[1] / "docs" / "laboratory.md"
    key = re.search(r"# verl: (\S+)=this_file.py", page.read_text(encoding="utf-8"))[1]
    file = tmp_path / "mine.py"
    file.write_text("def compute_score(data_source, solution_str, **_):\n    return 0.25\n")
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer", [f"{key}={file}"])
    assert get_custom_reward_fn(config)(data_source="x", solution_str="y") == 0.25


def test_verls_own_reward_function_knows_gsm8k():
    answer = "She makes 9 * 2 = 18 dollars.\n#### 18"
    assert default_compute_score("openai/gsm8k", answer, "18") == 1.0
    assert default_compute_score("openai/gsm8k", answer, "19") == 0.0
