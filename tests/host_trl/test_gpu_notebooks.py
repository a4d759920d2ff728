"""The notebooks for a GPU, as far as a CPU goes: their cells, with a tiny model and two steps."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "gpu").glob("*.ipynb"))

#: Stands for `unsloth`: it rewrites TRL's trainer while it is imported, and loads a model.
UNSLOTH = """
import sys, types
import trl, trl.trainer.grpo_trainer
class UnslothGRPOTrainer(trl.GRPOTrainer): pass
for module in (trl, trl.trainer, trl.trainer.grpo_trainer): module.GRPOTrainer = UnslothGRPOTrainer

class FastLanguageModel:
    def from_pretrained(model_name, max_seq_length, load_in_4bit):
        from transformers import AutoModelForCausalLM, AutoTokenizer
        tokenizer = AutoTokenizer.from_pretrained(model_name, padding_side="left")
        return AutoModelForCausalLM.from_pretrained(model_name), tokenizer

    def get_peft_model(model, r, lora_alpha, target_modules, **more):
        import peft
        config = peft.LoraConfig(r=r, lora_alpha=lora_alpha, target_modules=target_modules)
        return peft.get_peft_model(model, config)

unsloth = types.ModuleType("unsloth")
unsloth.FastLanguageModel = FastLanguageModel
sys.modules["unsloth"] = unsloth
"""


def cells_of(path: Path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_train_a_tiny_model_on_a_cpu(path, tiny_model, tmp_path):
    small = (
        f"MODEL = {str(tiny_model)!r}\n"
        f"DATA = {str(ROOT / 'tests/data/gsm8k/train.jsonl')!r}\n"
        "ROLLOUTS, KEPT, LENGTH, STEPS = 8, 4, 16, 2\n"
        "MORE = {'use_cpu': True, 'bf16': False}\n"
    )
    code = [cell["source"] for cell in cells_of(path) if cell["cell_type"] == "code"]
    run = [cell for cell in code if "%pip" not in cell]
    assert len(run) == len(code) - 1
    place = next(i for i, cell in enumerate(run) if cell.startswith("MODEL = "))
    run[place] += "\n" + small

    program = "\n".join(
        [UNSLOTH if "unsloth" in path.stem else "", *run, "print(PODSTrainer.__mro__)"]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "2 steps; the last: reward" in done.stdout
    assert "step_000001 step_000002" in done.stdout
    assert ("UnslothGRPOTrainer" in done.stdout) is ("unsloth" in path.stem)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_first_cell_says_what_was_not_run(path):
    cells = cells_of(path)
    assert "What was run of this notebook, and what was not." in cells[0]["source"]
    assert "Not run:" in cells[0]["source"]
    assert all(not cell.get("outputs") for cell in cells)  # nothing that looks as if it had been
