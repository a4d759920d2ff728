"""examples/gsm8k_1gpu.py, run as it is with a tiny model, and without a GPU's settings."""

import re
import runpy
from pathlib import Path

from podslab.models.load import load_model
from podsrl.rollout_log.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples" / "gsm8k_1gpu.py"
#: What a CPU can't do, and what keeps the test short.
ON_A_CPU = {
    **{"use_vllm": False, "vllm_enable_sleep_mode": False, "bf16": False, "use_cpu": True},
    **{"model_init_kwargs": {"dtype": "float32"}, "max_completion_length": 8, "max_steps": 1},
    "save_steps": 1,
}


def test_the_recipe_for_one_gpu_trains_what_its_text_says(tiny_model, tmp_path):
    recipe = runpy.run_path(str(RECIPE))
    data = tmp_path / "data"
    data.mkdir()
    some = (ROOT / "tests/data/gsm8k/train.jsonl").read_text()
    (data / "train.jsonl").write_text(some * 4)  # a step has 16 prompts
    trainer = recipe["main"](str(tiny_model), str(data), output_dir=str(tmp_path), **ON_A_CPU)
    says = r"selected (\d+) of (\d+) on average in (\d+) groups; the update sees (\d+) rows"
    said = re.search(says, recipe["__doc__"])
    assert said is not None
    m, n, prompts, rows = map(int, said.groups())
    written = RunFolder(tmp_path).rollouts(1)
    assert written is not None
    assert written.num_rows == n * prompts == trainer.rollouts_generated
    assert sum(written["kept"].to_pylist()) == rows == m * prompts == trainer.rollouts_trained
    # what the text then evaluates: an adapter, on the model that it was trained from
    checkpoint = tmp_path / "checkpoint-1"
    assert (checkpoint / "adapter_config.json").is_file()
    model, _ = load_model(str(checkpoint))
    assert model.peft_config["default"].r == recipe["LORA"].r == 64


def test_the_recipes_are_whole_files_of_under_80_lines_with_costs_or_not_measured():
    for recipe in (RECIPE, RECIPE.with_name("gsm8k_8gpu.sh")):
        text = recipe.read_text(encoding="utf-8")
        assert text.count("\n") < 80
        for told in ("cost and hours", "expected accuracy", "not measured"):
            assert told in text
