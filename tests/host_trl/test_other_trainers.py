"""docs/other-trainers.md: the plugin for axolotl on stand-ins, and a trainer that was rewritten."""

import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
FILES = ROOT / "examples" / "axolotl"
PAGE = (ROOT / "docs" / "other-trainers.md").read_text(encoding="utf-8")
FILE = yaml.safe_load((FILES / "sums.yaml").read_text(encoding="utf-8"))


@dataclass
class AxolotlTrainingMixins:
    sample_packing: bool = False


@dataclass
class AxolotlGRPOConfig(AxolotlTrainingMixins, GRPOConfig):
    context_parallel_size: int | None = None


class AxolotlGRPOTrainer(GRPOTrainer):
    def create_optimizer(self, *given: Any) -> Any:
        self.optimizer_of_axolotl = True
        return super().create_optimizer(*given)


#: The names of axolotl 0.19.0 that the plugin uses.
NAMES = {
    "axolotl.core.trainers.grpo.trainer": {"AxolotlGRPOTrainer": AxolotlGRPOTrainer},
    "axolotl.core.training_args": {"AxolotlTrainingMixins": AxolotlTrainingMixins},
    "axolotl.integrations.base": {
        "BasePlugin": type("BasePlugin", (), {}),
        "PluginManager": SimpleNamespace(
            get_instance=lambda: SimpleNamespace(cfg=SimpleNamespace(pods=FILE["pods"]))
        ),
    },
}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """named("module.name"): what axolotl would load, with stand-ins for its own modules."""
    for name, values in NAMES.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(FILES))
    for name in ("pods_axolotl", "sums_for_axolotl"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def load(name: str) -> Any:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)

    return load


def test_the_section_of_the_file_for_axolotl_passes_its_own_check(named):
    (plugin,) = FILE["plugins"]
    section = named(named(plugin)().get_input_args())  # axolotl's check of the file
    assert section(pods=FILE["pods"]).pods == FILE["pods"]


def test_the_file_for_axolotl_trains_the_rows_that_its_section_asks_for(
    named, tiny_model, tmp_path
):
    args = AxolotlGRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=8,
        max_steps=1,
        use_cpu=True,
        learning_rate=FILE["learning_rate"],
        lr_scheduler_type=FILE["lr_scheduler"],
        bf16=False,
        num_generations=FILE["trl"]["num_generations"],
        report_to="none",
        sample_packing=True,
        max_completion_length=8,
    )
    prompts = [[{"role": "user", "content": f"{i}+1"}] for i in range(9)]
    rows = [{"prompt": prompt, "answer": "1"} for prompt in prompts]
    trainer = named(FILE["trainer_cls"])(
        AutoModelForCausalLM.from_pretrained(tiny_model),
        [named(name) for name in FILE["trl"]["reward_funcs"]],
        args=args,
        train_dataset=Dataset.from_list(rows),
        callbacks=[],
        processing_class=AutoTokenizer.from_pretrained(tiny_model),
    )
    trainer.train()

    assert trainer.optimizer_of_axolotl
    assert trainer.args.sample_packing
    assert trainer.args.learning_rate == FILE["learning_rate"]
    assert trainer.pods.settings.selection.rule == "max_variance"
    assert trainer.pods.settings.selection.baseline == "kept"

    kept = RunFolder(tmp_path).rollouts(1)["kept"].to_pylist()
    assert len(kept) == 32  # of one prompt, and eight of them kept
    assert sum(kept) == 8


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"advantage_estimator": "rloo"}, "no field 'advantage_estimator'; .*advantage_baseline"),
        ({"num_rollout": 32}, "no field 'num_rollout'; did you mean 'num_rollouts'"),
        ({"m": 8}, "no field 'm'; its fields are PODSConfig's"),
        ({"rule": "max_variance"}, "no field 'rule'; its fields are"),
        ({"reward_funcs": ["nofile.reward"]}, "no field 'reward_funcs'"),
        ({"num_rollouts": 32, "algorithm": {"adv": "rloo"}}, "no field 'algorithm'"),
    ],
)
def test_what_pods_does_not_know_in_the_section_for_axolotl_is_refused(named, section, says):
    (plugin,) = FILE["plugins"]
    check = named(named(plugin)().get_input_args())
    with pytest.raises(ValueError, match=says):
        check(pods=section)
    assert check(pods=None).pods is None
    assert check(pods={"beta": 0.1}).pods == {"beta": 0.1}  # one of TRL's


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ({"advantage_estimator": "rloo"}, "advantage_estimator: rloo would be passed over"),
        ({"adv_estimator": "rloo"}, "adv_estimator: rloo would be passed over"),
        ({"trl": {"advantage_estimator": "rloo"}}, "advantage_estimator: rloo"),
        ({"ebft": {"advantage_estimator": "group_norm"}}, "advantage_estimator: group_norm"),
        ({"advantage_estimator": "reinforce", "rl": "grpo"}, "advantage_estimator: reinforce"),
        ({"rl": "ebft"}, "pods needs rl: grpo, got rl: ebft"),
    ],
)
def test_other_advantages_beside_pods_in_axolotls_file_are_refused(named, file, says):
    (plugin,) = FILE["plugins"]
    check = named(named(plugin)().get_input_args())
    with pytest.raises(ValueError, match=says):
        check(pods=FILE["pods"], **file)
    assert check(**file).pods is None  # not ours
    assert check(**{**FILE, "advantage_estimator": "grpo"}).pods == FILE["pods"]


@pytest.mark.parametrize("names", [["nofile.reward"], ["sums_for_axolotl.right", "nofile.reward"]])
def test_a_name_that_axolotl_could_not_import_is_no_reward_model(named, tiny_model, names):
    """It hands a name on where its module is not there, as the name of a reward model."""
    functions = [named(n) if n.startswith("sums") else n for n in names]
    args = AxolotlGRPOConfig("unused", use_cpu=True, bf16=False, num_generations=8)
    with pytest.raises(InvalidInputError, match=r"the text 'nofile.reward', .* import it"):
        named(FILE["trainer_cls"])(
            AutoModelForCausalLM.from_pretrained(tiny_model),
            functions,
            args=args,
            train_dataset=Dataset.from_list([{"prompt": "1+1", "answer": "2"}] * 9),
        )


def test_what_the_page_shows_of_the_file_stands_in_it():
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    for name, value in yaml.safe_load(shown).items():
        assert FILE[name] == value, name


def test_axolotl_has_the_names_that_the_plugin_uses():
    pytest.importorskip("axolotl", reason="axolotl is not installed")
    for module, names in NAMES.items():
        assert names.keys() <= vars(importlib.import_module(module)).keys()
    builder = importlib.import_module("axolotl.core.builders.rl").HFRLTrainerBuilder
    chosen = inspect.getsource(builder._get_trainer_cls)
    assert "trainer_cls_args = []" in chosen  # a plugin's trainer gets neither model nor rewards
    assert "get_cls_from_module_str(self.cfg.trainer_cls)" in chosen


@pytest.mark.slow
def test_a_trainer_that_was_rewritten_before_podsrl_is_imported_is_the_one_underneath():
    """As Unsloth does it: TRL's names are of another class when `import unsloth` has ended."""
    rewritten = """
import trl, trl.trainer.grpo_trainer
class UnslothGRPOTrainer(trl.GRPOTrainer): pass
for module in (trl, trl.trainer, trl.trainer.grpo_trainer): module.GRPOTrainer = UnslothGRPOTrainer
"""
    shown = re.search(r'python -c "import unsloth; (.*?)"', PAGE)[1]
    command = [sys.executable, "-c", f"{rewritten}\n{shown}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "<class '__main__.UnslothGRPOTrainer'>\n"
