"""What a run will do and need, said before it does it."""

from typing import Any

import pytest

pytest.importorskip("trl")

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from podslab.training.memory import GIB, SHAPES, ModelShape, UpdateMemory, find_shape
from podslab.training.preview import Preview
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
    assert (preview.prompts, preview.rollouts, preview.rows, preview.micro_batches) == (
        2,
        128,
        32,
        2,
    )
    assert preview.steps == 150  # 100 prompts, 2 a step, 3 epochs


def test_a_preview_for_eight_gpus_counts_all_of_them():
    preview = Preview.of(spec(processes=8, num_rollouts=128, num_generations=32))
    # 8 processes x 2 x 16 rows = 256 rows = 8 prompts x 32 kept, of 8 x 128 generated
    assert (preview.prompts, preview.rollouts, preview.rows) == (8, 1024, 256)


def test_a_preview_of_one_row_per_prompt_on_average_counts_as_many_prompts_as_rows():
    settings = spec(num_rollouts=3, num_generations=1, selection_scope="batch")
    preview = Preview.of(settings)
    assert (preview.prompts, preview.rollouts, preview.rows) == (32, 96, 32)
    assert "the best 32 of all 96 rollouts: the update sees 32 rows" in preview.describe(settings)


def test_the_launch_command_fits_the_gpus():
    one, eight = spec(), spec(processes=8)
    assert Preview.of(one).launch(one, ["--config", "x"]) == "pods train --config x"
    words = Preview.of(eight).launch(eight, ["--config", "my run"])
    assert words == (
        "accelerate launch --num_processes 8 --use_deepspeed --zero_stage 2"
        " -m podsrl.cli train --config 'my run'"
    )
    lora = spec(processes=8, use_peft=True)
    assert "deepspeed" not in Preview.of(lora).launch(lora, [])
    assert Preview.of(eight).launch(eight, [], on_cpu=True) == (
        "torchrun --nproc_per_node 8 -m podsrl.cli train"
    )


@pytest.mark.parametrize(
    ("name", "billions"),
    [  # as their model cards say: 3.09, 7.61, 3.21
        ("Qwen/Qwen2.5-3B-Instruct", 3.09),
        ("Qwen/Qwen2.5-7B-Instruct", 7.61),
        ("meta-llama/Llama-3.2-3B-Instruct", 3.21),
    ],
)
def test_the_papers_models_have_their_published_numbers_of_parameters(name, billions):
    assert SHAPES[name].parameters / 1e9 == pytest.approx(billions, rel=0.005)


def test_a_models_shape_is_read_from_its_folder_and_counts_its_weights(tiny_model):
    shape = find_shape(spec(model_name_or_path=str(tiny_model)))
    assert shape is not None
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    assert shape.parameters == pytest.approx(model.num_parameters(), rel=0.02)  # norms and biases
    assert find_shape(spec(model_name_or_path="no/such-model")) is None


def test_lora_parameters_are_those_that_peft_adds(tiny_model):
    from peft import LoraConfig, get_peft_model

    targets = ("q_proj", "v_proj", "down_proj")
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    adapted = get_peft_model(model, LoraConfig(r=8, target_modules=list(targets)))
    trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    shape = ModelShape.of_config(AutoConfig.from_pretrained(tiny_model))
    assert shape.lora_parameters(8, targets) == trained


def test_estimated_activations_are_near_what_autograd_keeps(tiny_model):
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    shape = ModelShape.of_config(model.config)
    rows, tokens, kept = 4, 128, {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        hidden = model.model(torch.zeros(rows, tokens, dtype=torch.long)).last_hidden_state
    measured = sum(size for where, size in kept.items() if where not in weights)
    estimated = 4 * rows * tokens * shape.activations(checkpointing=False)
    assert hidden.requires_grad
    assert measured / 1.5 < estimated < measured * 1.5


def test_memory_grows_with_the_rows_that_are_trained_and_not_with_those_generated():
    shape = SHAPES["Qwen/Qwen2.5-3B-Instruct"]

    def total(**fields: Any) -> float:
        return UpdateMemory.of(spec(**fields), shape, fields.get("processes", 1)).total

    assert total(num_rollouts=256) == total()
    assert total(per_device_train_batch_size=64) > total()
    assert total(gradient_checkpointing=False) > total()
    assert total(use_peft=True) < total()
    one = total(use_peft=True, lora_target_modules=["q_proj"])  # which TRL makes a word
    assert one > total(use_peft=True, lora_target_modules=["k_proj"])
    assert total(use_peft=True, load_in_4bit=True) < total(use_peft=True)
    assert total(beta=0.1) == pytest.approx(total() + 4 * shape.parameters)  # a reference model
    assert total(processes=8) < total()
    # float32 weights, gradients and two moments of 3.09 billion parameters: 16 bytes each, 46 GiB
    assert total(per_device_train_batch_size=16, gradient_accumulation_steps=2) > 46 * GIB


def test_an_unknown_model_is_said_to_be_unknown():
    there = spec(model_name_or_path="no/such-model")
    assert "memory      unknown" in Preview.of(there).describe(there)
