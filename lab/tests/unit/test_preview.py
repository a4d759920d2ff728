"""What a run will do, said before it does it."""

import json
from typing import Any

import pytest

pytest.importorskip("trl")

from podslab.training.preview import Preview
from podslab.training.run import load_data
from podslab.training.spec import Spec, parse

SETTINGS: dict[str, Any] = {
    "model_name_or_path": "Qwen/Qwen2.5-3B-Instruct",
    "num_rollouts": 64,
    "num_generations": 16,
    "per_device_train_batch_size": 16,
    "gradient_accumulation_steps": 2,
    "max_completion_length": 512,
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
}


def spec(**fields: Any) -> Spec:
    return parse({**SETTINGS, **fields})


def test_a_preview_counts_prompts_rollouts_rows_and_micro_batches():
    preview = Preview.of(spec(), dataset_rows=100)
    # 2 micro-batches x 16 rows = 32 rows = 2 prompts x 16 kept, of 2 x 64 generated
    assert (preview.prompts, preview.rollouts, preview.rows) == (2, 128, 32)
    assert preview.micro_batches == 2
    assert preview.steps == 150  # 100 prompts, 2 a step, 3 epochs


def test_a_preview_for_eight_gpus_counts_all_of_them():
    preview = Preview.of(spec(processes=8, num_rollouts=128, num_generations=32))
    # 8 processes x 2 x 16 rows = 256 rows = 8 prompts x 32 kept, of 8 x 128 generated
    assert (preview.prompts, preview.rollouts, preview.rows) == (8, 1024, 256)


def test_a_preview_of_one_row_per_prompt_on_average_counts_as_many_prompts_as_rows():
    settings = spec(num_rollouts=3, num_generations=1, downsampling_rule="max_contrast")
    preview = Preview.of(settings)
    assert (preview.prompts, preview.rollouts, preview.rows) == (32, 96, 32)
    assert (
        "32 of all 96 rollouts, those with most contrast: the update sees 32 rows"
        in preview.describe(settings)
    )


def test_the_launch_command_fits_the_gpus():
    one = spec()
    eight = spec(processes=8)
    assert Preview.of(one).launch(one, ["--config", "x"]) == "pods train --config x"
    words = Preview.of(eight).launch(eight, ["--config", "my run"])
    assert words == (
        "accelerate launch --num_processes 8 --use_deepspeed --zero_stage 2"
        " -m podsrl.cli train --config 'my run'"
    )
    lora = spec(processes=8, use_peft=True)
    assert "deepspeed" not in Preview.of(lora).launch(lora, [])


def test_problems_to_evaluate_on_that_are_trained_on_too_are_counted(caplog, tmp_path):
    for split, sums in (("train", (1, 2, 3, 4)), ("test", (4, 5, 3))):
        rows = [{"question": f"1+{i}?", "answer": f"so\n#### {1 + i}"} for i in sums]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{split}.jsonl").write_text(text.replace("so", split))
    assert len(load_data(spec(task="gsm8k", data_path=str(tmp_path))).held_out) == 3
    assert "2 of the 3 problems to evaluate on are problems to train on, too" in caplog.text
    caplog.clear()
    load_data(spec(task="arithmetic"))
    assert caplog.text == ""
