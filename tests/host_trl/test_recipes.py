"""examples/gsm8k_1gpu.py and first_run.py, with a smaller model and without a GPU's settings."""

import json
import re
import runpy
from pathlib import Path

import pytest
from datasets import Dataset

from podsrl.rollout_log.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples" / "gsm8k_1gpu.py"
GSM8K = ROOT / "tests" / "data" / "gsm8k" / "train.jsonl"
#: What a CPU can't do, and what keeps the test short.
ON_A_CPU = {
    "use_vllm": False,
    "vllm_enable_sleep_mode": False,
    "bf16": False,
    "use_cpu": True,
    "model_init_kwargs": {"dtype": "float32"},
    "max_completion_length": 8,
    "max_steps": 1,
    "save_steps": 1,
}


def numbers_in(sentence: str, text: str) -> list[int]:
    """The numbers of a sentence, a pattern with groups, that a text must contain."""
    match = re.search(sentence, text)
    assert match is not None
    return [int(number) for number in match.groups()]


def test_the_recipe_for_one_gpu_trains_what_its_text_says(tiny_model, tmp_path):
    recipe = runpy.run_path(str(RECIPE))
    lines = GSM8K.read_text(encoding="utf-8").splitlines()
    data = Dataset.from_list([json.loads(line) for line in lines])
    # a step has one prompt, as the authors' runs on one GPU
    trainer = recipe["main"](str(tiny_model), data, output_dir=str(tmp_path), **ON_A_CPU)

    m, n, prompts, rows = numbers_in(
        r"selected (\d+) of (\d+) in (\d+) groups; the update sees (\d+) rows", recipe["__doc__"]
    )
    assert rows == m * prompts
    assert trainer.pods.state.rollouts_generated == n * prompts
    assert trainer.pods.state.rollouts_trained == rows

    kept = RunFolder(tmp_path).rollouts(1)["kept"].to_pylist()
    assert len(kept) == n * prompts
    assert sum(kept) == rows
    assert (tmp_path / "checkpoint-1" / "adapter_config.json").is_file()


@pytest.mark.parametrize(
    ("said", "gold", "right"),
    [
        ("So 9 * 8.\n#### 72", "48 + 24 = 72\n#### 72", True),
        ("#### $1,080.", "#### 1080", True),
        ("It is 72", "#### 72", False),
        ("#### 71", "#### 72", False),
        ("#### 72 or 73", "#### 72", False),
    ],
)
def test_the_recipe_grades_the_number_after_the_last_mark(said, gold, right):
    recipe = runpy.run_path(str(RECIPE))
    assert recipe["correct"]([[{"content": said}]], answer=[gold]) == [float(right)]


def test_the_recipes_tell_what_they_cost_or_that_it_was_not_measured():
    for recipe in (RECIPE, RECIPE.with_name("gsm8k_8gpu.sh")):
        text = recipe.read_text(encoding="utf-8")
        for told in ("cost and hours", "expected accuracy", "not measured"):
            assert told in text


@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")  # torch's, without a GPU
def test_the_script_of_the_readme_trains_what_it_says(tiny_model, tmp_path, monkeypatch):
    """As it is, but with a smaller model, two steps and no GPU."""
    script = ROOT / "examples" / "first_run.py"
    code = script.read_text(encoding="utf-8")
    assert "podslab" not in code  # the library alone, and a model of the user's own
    smaller = {
        "Qwen/Qwen2.5-0.5B-Instruct": str(tiny_model),
        "max_steps=200": "max_steps=2, use_cpu=True",
    }
    for written, replacement in smaller.items():
        assert code.count(written) == 1
        code = code.replace(written, replacement)

    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(script), "exec"), {})

    prompts, generated, kept = numbers_in(
        r"# each step: (\d+) prompts, (\d+) rollouts; (\d+) are trained on", code
    )
    rollouts = RunFolder(tmp_path / "out").rollouts(2).to_pandas()
    assert rollouts["group"].nunique() == prompts
    assert len(rollouts) == generated
    assert rollouts["kept"].sum() == kept


def test_the_script_of_the_readme_is_the_example():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.split("```python\n")[1].split("```")[0]
    assert block == (ROOT / "examples" / "first_run.py").read_text(encoding="utf-8")
