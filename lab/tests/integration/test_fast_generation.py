"""What makes the laboratory fast on a CPU leaves what is sampled and learned as it is.

Generation that reads each prompt once draws from the same distribution as transformers' own.
"""

import copy
import sys
from collections import Counter

import pytest

pytest.importorskip("trl")

import torch
from datasets import Dataset
from scipy.stats import chi2_contingency
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    MistralConfig,
)

from podslab.evaluation import fast_generation
from podslab.evaluation.fast_generation import can_share, generate
from podslab.tasks import get_task
from podslab.training.lab_trainer import LabTrainer, keep_memory
from podslab.training.run import with_prompts
from podsrl.trl import PODSConfig, PODSTrainer


@pytest.fixture(scope="module")
def model(tiny_model):
    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return AutoTokenizer.from_pretrained(tiny_model, padding_side="left")


@pytest.fixture
def config(model, tokenizer):
    own = copy.deepcopy(model.generation_config)
    own.update(max_new_tokens=40, do_sample=True, temperature=1.0, top_k=0)
    own.update(pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id)
    return own


def inputs(tokenizer, sums, repeats):
    batch = tokenizer([s + "\n" for s in sums for _ in range(repeats)], padding=True)
    return {name: torch.tensor(batch[name]) for name in ("input_ids", "attention_mask")}


@pytest.mark.parametrize("sums", [["12+34"], ["1+2", "12+34", "99+99", "5+17"]])
def test_greedy_decoding_gives_the_tokens_of_generate(model, tokenizer, config, sums):
    config.update(do_sample=False)
    batch = inputs(tokenizer, sums, repeats=5)
    assert torch.equal(
        generate(model, **batch, generation_config=config),
        model.generate(**batch, generation_config=config),
    )


def test_rows_that_end_at_different_times_keep_their_places(model, tokenizer, config):
    config.update(do_sample=False)
    batch = inputs(tokenizer, ["12+34", "1+2", "12+34", "7+5", "1+2"], repeats=1)
    whole = generate(model, **batch, generation_config=config)
    lengths = (whole != config.pad_token_id).sum(dim=1)
    assert len(set(lengths.tolist())) > 1
    assert torch.equal(whole[0], whole[2])
    assert torch.equal(whole, model.generate(**batch, generation_config=config))


@pytest.mark.slow
def test_sampled_completions_come_as_often_as_from_generate(model, tokenizer, config):
    config.update(temperature=1.2)
    batch = inputs(tokenizer, ["58+67", "4+11"], repeats=500)
    start = batch["input_ids"].shape[1]

    def counted(sequences):
        """How often each completion came, by prompt; without the padding to the longest one."""
        counts = Counter()
        for place, sequence in enumerate(sequences.tolist()):
            tokens = [token for token in sequence[start:] if token != config.pad_token_id]
            counts[place // 500, tuple(tokens)] += 1
        return counts

    torch.manual_seed(0)
    ours = counted(generate(model, **batch, generation_config=config))
    torch.manual_seed(1)
    theirs = counted(model.generate(**batch, generation_config=config))

    common = [completion for completion, count in (ours + theirs).items() if count >= 20]
    assert len(common) >= 5

    def frequencies(counts):
        """Those of the common completions, and of all others together."""
        of_common = [counts[completion] for completion in common]
        return [*of_common, counts.total() - sum(of_common)]

    assert chi2_contingency([frequencies(ours), frequencies(theirs)]).pvalue > 1e-3


def test_each_prompt_is_read_once(model, tokenizer, config):
    tokens_read = []
    handle = model.get_input_embeddings().register_forward_hook(
        lambda module, args, output: tokens_read.append(args[0].numel())
    )
    generate(model, **inputs(tokenizer, ["12+34", "56+78"], repeats=50), generation_config=config)
    handle.remove()
    assert tokens_read[0] == 2 * (len("12+34\n") - 1)  # and the last token by each row
    assert max(tokens_read[1:]) == 100  # one token a row


def test_ended_rows_leave_the_batch(model, tokenizer, config):
    rows = []
    handle = model.get_input_embeddings().register_forward_hook(
        lambda module, args, output: rows.append(len(args[0]))
    )
    batch = inputs(tokenizer, ["1+2", "98+99"], repeats=50)
    whole = generate(model, **batch, generation_config=config)
    handle.remove()
    lengths = (whole != config.pad_token_id).sum(dim=1)
    assert lengths.min() < lengths.max()
    assert sorted(rows[1:], reverse=True) == rows[1:]
    assert rows[-1] < rows[1] == 100


@pytest.mark.parametrize(
    "setting",
    [
        {"num_beams": 2},
        {"num_return_sequences": 2},
        {"min_new_tokens": 5},
        {"stop_strings": ["x"]},
        {"use_cache": False},
        {"cache_implementation": "static"},
        {"return_dict_in_generate": True},
        {"eos_token_id": None},
        {"max_new_tokens": None},
    ],
)
def test_what_would_mean_something_else_is_left_to_generate(model, config, setting):
    assert can_share(model, config)
    config.update(**setting)
    for name, value in setting.items():
        setattr(config, name, value)
    assert not can_share(model, config)


def test_the_settings_of_the_model_itself_count_where_none_are_given(model, config):
    other = copy.deepcopy(model)
    other.generation_config.num_beams = 2
    config.num_beams = None
    assert can_share(model, config)
    assert not can_share(other, config)
    config.num_beams = 1
    assert can_share(other, config)


def test_a_model_that_keeps_no_cache_is_left_to_generate(model, config, monkeypatch):
    monkeypatch.setattr(model.generation_config, "use_cache", False)
    config.use_cache = None  # as TRL gives it
    assert not can_share(model, config)
    config.use_cache = True
    assert can_share(model, config)


def test_prompts_of_one_token_are_left_to_generate(model, tokenizer, config):
    config.update(do_sample=False)
    batch = {name: values[:, :1] for name, values in inputs(tokenizer, ["12+34"], 3).items()}
    whole = generate(model, **batch, generation_config=config)
    assert torch.equal(whole, model.generate(**batch, generation_config=config))


def test_rows_leave_a_cache_of_a_sliding_window(model, tokenizer, config):
    config.update(do_sample=False)
    small = MistralConfig(
        vocab_size=model.config.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        sliding_window=4,
    )
    torch.manual_seed(0)
    other = AutoModelForCausalLM.from_config(small).eval()
    with torch.no_grad():
        other.lm_head.weight *= 50  # answers that end at different times
    batch = inputs(tokenizer, ["12+34", "1+2", "7+8", "58+67", "93+5"], repeats=2)
    config.eos_token_id = list(range(5, 12))
    whole = generate(other, **batch, generation_config=config)
    lengths = (whole != config.pad_token_id).sum(dim=1)
    assert len(set(lengths.tolist())) > 1
    assert torch.equal(whole, other.generate(**batch, generation_config=config))


@pytest.fixture
def make_lab_trainer(tiny_model, tokenizer, tmp_path):
    def make(name, **fields):
        task = get_task("arithmetic", min_columns=2, max_columns=2, train_size=16)
        config = PODSConfig(
            output_dir=str(tmp_path / name),
            num_rollouts=16,
            num_generations=4,
            per_device_train_batch_size=8,
            max_steps=1,
            learning_rate=1e-3,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            **{"max_completion_length": 32, **fields},
        )

        return LabTrainer(
            model=AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32),
            reward_funcs=task.rewards(),
            args=config,
            train_dataset=Dataset.from_list(with_prompts(task, task.load("train"))),
            processing_class=tokenizer,
        )

    return make


def generations(monkeypatch):
    """What `generate` is asked for from here on."""
    seen = []

    def remembering(model, **given):
        seen.append(given)
        return generate(model, **given)

    monkeypatch.setattr(fast_generation, "generate", remembering)
    return seen


def test_the_labs_trainer_generates_with_it_and_with_the_settings_of_its_config(
    make_lab_trainer, monkeypatch
):
    seen = generations(monkeypatch)
    trainer = make_lab_trainer("run", temperature=0.7, top_p=0.9, max_completion_length=12)
    trainer.train()
    (given,) = seen
    assert len(given["input_ids"]) == 2 * 16
    config = given["generation_config"]
    assert (config.temperature, config.top_p, config.max_new_tokens) == (0.7, 0.9, 12)
    assert "generate" not in vars(trainer.model)  # as it was before


def test_a_compiled_model_generates_fast_as_well(model, tokenizer, config, monkeypatch):
    seen = generations(monkeypatch)
    config.update(do_sample=False)
    batch = inputs(tokenizer, ["12+34"], repeats=2)
    compiled = torch.compile(model, backend="eager")
    with fast_generation.generating_fast(compiled):
        whole = compiled.generate(**batch, generation_config=config)
    assert len(seen) == 1
    assert torch.equal(whole, model.generate(**batch, generation_config=config))


def test_predicting_completions_alone_gives_trls_log_probs_and_gradient(
    make_lab_trainer, monkeypatch
):
    trainer = make_lab_trainer("run")
    predicted = []
    head = trainer.model.get_output_embeddings().weight
    product = torch.mm

    def counting(hidden, weight, **given):
        predicted.append(len(hidden))
        return product(hidden, weight, **given)

    monkeypatch.setattr(torch, "mm", counting)

    ids = torch.randint(5, 20, (3, 12))
    given = (trainer.model, ids, torch.ones_like(ids), 4)  # 4 tokens of each row are a completion

    found = {}
    for kind in (PODSTrainer, LabTrainer):
        predicted.clear()
        logps = kind._get_per_token_logps_and_entropies(trainer, *given)[0]
        rows = set(predicted)
        (gradient,) = torch.autograd.grad(logps.sum(), head)
        found[kind] = (logps, gradient, rows)

    for of_trl, of_lab in zip(found[PODSTrainer][:2], found[LabTrainer][:2], strict=True):
        torch.testing.assert_close(of_lab, of_trl)
    assert found[LabTrainer][2] == {3 * 4}  # TRL predicts 3 x 11


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="keep_memory speaks to glibc")
def test_memory_that_was_freed_serves_the_next_tensor():
    import resource  # which Windows lacks

    def faults_of_a_large_tensor():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(16_000_000)  # 64 MB: 15,625 pages
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    keep_memory()
    assert min(faults_of_a_large_tensor() for _ in range(6)) < 5000
