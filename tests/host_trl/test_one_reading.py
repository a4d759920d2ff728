"""A prompt is read once for all its rollouts, and what is generated stays as it is."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, GenerationConfig

from podsrl.trl.one_reading import OneReading, why_each_is_read
from support.trl_runs import logged, table_of, weights

TOKENS = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SIZE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
KEYS = {"num_key_value_heads": 2}
HEADS = {**KEYS, "head_dim": 8}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
#: Shorter than the prompts below.
WINDOW = {"sliding_window": 8}

#: Small models of every kind of attention, by the names of their configs.
READ_ONCE: dict[str, dict[str, Any]] = {
    "Llama": {**SIZE, **KEYS},
    "Qwen2": {**SIZE, **KEYS},
    "Qwen3": {**SIZE, **HEADS},
    "Qwen3Moe": {**SIZE, **HEADS, **EXPERTS, "num_experts": 4},
    "Mistral": {**SIZE, **KEYS, **WINDOW},
    "Gemma": {**SIZE, **HEADS},
    "Gemma2": {**SIZE, **HEADS, **WINDOW},
    "GPT2": GPT,
    "GPTJ": {**GPT, "rotary_dim": 4},
    "GPTNeoX": SIZE,
    "Phi": SIZE,
    "OPT": {
        **{name: SIZE[name] for name in list(SIZE)[:3]},
        "ffn_dim": 64,
        "word_embed_proj_dim": 32,
    },
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "Falcon": {**{name: SIZE[name] for name in list(SIZE)[:3]}, "alibi": True},
}
#: Models whose cache is no copy of keys and values by row, and what is said of them.
READ_BY_EACH: dict[str, tuple[dict[str, Any], str]] = {
    "Mamba": ({"hidden_size": 32, "num_hidden_layers": 2}, "takes no cache"),
    "OpenAIGPT": (GPT, "takes no cache"),
    "Rwkv": ({"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32}, "takes no"),
    "Jamba": (
        {**SIZE, **KEYS, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2},
        "state",
    ),
    "RecurrentGemma": (
        {**SIZE, "num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 8},
        "state",
    ),
    "Lfm2": (
        {**SIZE, **KEYS, "layer_types": ["conv", "full_attention"]},
        "layers of another kind: LinearAttentionLayer",
    ),
    "Mpt": ({"d_model": 32, "n_heads": 4, "n_layers": 2}, "use_cache=False"),
    "T5": ({"d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8}, "encoder"),
}
LENGTHS = (20, 7, 13)
ROLLOUTS = 4
GREEDY = GenerationConfig(max_new_tokens=16, do_sample=False, pad_token_id=0, eos_token_id=2)
SAMPLED = GenerationConfig(
    max_new_tokens=16, do_sample=True, top_k=0, temperature=1.3, pad_token_id=0, eos_token_id=2
)


def small_model(kind: str, fields: dict[str, Any]) -> Any:
    """A model with random weights, large enough for its answers to depend on its prompts."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**TOKENS, **fields)
    auto = transformers.AutoModelForSeq2SeqLM if kind == "T5" else AutoModelForCausalLM
    model = auto.from_config(config).float().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight *= 6
    return model


def prompts(lengths: tuple[int, ...] = LENGTHS, rollouts: int = ROLLOUTS) -> dict[str, Any]:
    """Prompts of these lengths, padded on the left, with `rollouts` rows each."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, -length:] = torch.randint(3, 64, (length,), generator=generator)
        mask[row, -length:] = 1
    rows = {"input_ids": ids, "attention_mask": mask}
    return {name: values.repeat_interleave(rollouts, dim=0) for name, values in rows.items()}


def with_one_reading(model: Any, reasons: list[str] | None = None, **given: Any) -> Any:
    """What `model.generate` gives where prompts are read once."""
    told: list[str] = []
    with OneReading(told.append).around(model):
        found = model.generate(**given)
    assert "generate" not in vars(model)  # as it was before
    if reasons is None:
        assert told == []
    else:
        reasons.extend(told)
    return found


def count_tokens(model: Any) -> list[int]:
    """The tokens of every pass that the model makes from now on."""
    tokens: list[int] = []
    model.get_input_embeddings().register_forward_hook(
        lambda module, args, output: tokens.append(args[0].numel())
    )
    return tokens


# ---- any model


@pytest.mark.parametrize("kind", READ_ONCE)
def test_greedy_answers_are_those_of_reading_each(kind: str) -> None:
    model = small_model(kind, READ_ONCE[kind])
    given = {**prompts(), "generation_config": GREEDY}
    read_by_each = model.generate(**given)
    assert len({tuple(row) for row in read_by_each.tolist()}) == len(LENGTHS)

    tokens = count_tokens(model)
    read_once = with_one_reading(model, **given)
    assert torch.equal(read_once, read_by_each)

    # Each prompt once without its last token, and then that token by each row.
    rows = len(LENGTHS) * ROLLOUTS
    assert tokens[0] == len(LENGTHS) * (max(LENGTHS) - 1)
    assert set(tokens[1:]) == {rows}


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "GPT2"])
def test_samples_are_drawn_with_the_same_random_numbers(kind: str) -> None:
    model = small_model(kind, READ_ONCE[kind])
    given = {**prompts(), "generation_config": SAMPLED}
    torch.manual_seed(3)
    read_by_each = model.generate(**given)
    torch.manual_seed(3)
    read_once = with_one_reading(model, **given)
    assert torch.equal(read_once, read_by_each)
    assert len({tuple(row) for row in read_once.tolist()}) == len(LENGTHS) * ROLLOUTS


@pytest.mark.parametrize("kind", READ_BY_EACH)
def test_models_whose_cache_cannot_be_copied_say_so_themselves(kind: str) -> None:
    fields, said = READ_BY_EACH[kind]
    model = small_model(kind, fields)
    assert said in why_each_is_read(model, GREEDY)
    if kind == "T5":
        return
    reasons: list[str] = []
    given = {**prompts(), "generation_config": GREEDY}
    assert torch.equal(with_one_reading(model, reasons, **given), model.generate(**given))
    assert len(reasons) == 1


def test_a_model_that_leaves_its_cache_empty_is_found_by_reading() -> None:
    model = small_model("Llama", READ_ONCE["Llama"])
    forward = type(model).forward

    class Forgetful(type(model)):  # type: ignore[misc]
        """Takes a cache, and keeps nothing in it."""

        def forward(self, input_ids: Any = None, past_key_values: Any = None, **given: Any) -> Any:
            return forward(self, input_ids=input_ids, use_cache=False)

    model.__class__ = Forgetful
    reasons: list[str] = []
    given = {**prompts(), "generation_config": GREEDY}
    assert torch.equal(with_one_reading(model, reasons, **given), model.generate(**given))
    assert "does not leave what it has read" in reasons[0]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("num_beams", 2),
        ("num_return_sequences", 2),
        ("use_cache", False),
        ("cache_implementation", "static"),
        ("prompt_lookup_num_tokens", 2),
    ],
)
def test_settings_that_need_another_cache_are_left_to_generate(setting: str, value: Any) -> None:
    model = small_model("Llama", READ_ONCE["Llama"])
    config = GenerationConfig(max_new_tokens=4, pad_token_id=0, eos_token_id=2)
    assert why_each_is_read(model, config) == ""
    setattr(config, setting, value)
    assert setting in why_each_is_read(model, config)
    setattr(config, setting, None)
    setattr(model.generation_config, setting, value)  # what is not given is the model's own
    assert setting in why_each_is_read(model, config)


@pytest.mark.parametrize("kind", ["GPT2", "OPT", "LoRA"])
def test_dropout_while_training_is_drawn_for_each_row(kind: str) -> None:
    if kind == "LoRA":
        lora = LoraConfig(lora_dropout=0.1, target_modules=["q_proj"], task_type="CAUSAL_LM")
        model = get_peft_model(small_model("Llama", READ_ONCE["Llama"]), lora)
    else:
        model = small_model(kind, READ_ONCE[kind])
    assert why_each_is_read(model.train(), GREEDY).startswith("while the model is in training mode")
    assert why_each_is_read(model.eval(), GREEDY) == ""


def test_adapters_are_read_with_their_model() -> None:
    lora = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False, lora_dropout=0)
    model = small_model("Llama", READ_ONCE["Llama"])
    given = {**prompts(), "generation_config": GREEDY}
    without = model.generate(**given)

    adapted = get_peft_model(model, lora).train()
    read_by_each = adapted.generate(**given)
    assert torch.equal(with_one_reading(adapted, **given), read_by_each)
    assert not torch.equal(read_by_each, without)


@pytest.mark.parametrize("lengths", [(9, 1), (1, 1)])
def test_a_prompt_of_one_token_has_nothing_to_share(lengths: tuple[int, ...]) -> None:
    model = small_model("Llama", READ_ONCE["Llama"])
    given = {**prompts(lengths), "generation_config": GREEDY}
    reasons: list[str] = []
    assert torch.equal(with_one_reading(model, reasons, **given), model.generate(**given))
    assert "one token" in reasons[0]


def test_rows_that_are_all_different_are_read_as_ever() -> None:
    model = small_model("Llama", READ_ONCE["Llama"])
    given = {**prompts(rollouts=1), "generation_config": GREEDY}
    tokens = count_tokens(model)
    with_one_reading(model, **given)
    assert tokens[0] == len(LENGTHS) * max(LENGTHS)


def test_rows_of_a_prompt_may_be_of_any_number() -> None:
    model = small_model("Llama", READ_ONCE["Llama"])
    given = {name: values[3:11] for name, values in prompts().items()}  # 1, 4 and 3 rows
    given["generation_config"] = GREEDY
    assert torch.equal(with_one_reading(model, **given), model.generate(**given))


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "GPT2", "Bloom"])
def test_prompts_are_read_once_for_several_calls_also_where_padding_is_cut(kind: str) -> None:
    """The longest prompt leaves after the first call, and all padding of the others with it."""
    model = small_model(kind, READ_ONCE[kind])
    first = prompts()
    rest = {name: values[ROLLOUTS:, max(LENGTHS) - 13 :] for name, values in first.items()}
    expected = [model.generate(**given, generation_config=GREEDY) for given in (first, rest)]

    tokens = count_tokens(model)
    reading = OneReading(lambda reason: pytest.fail(reason))
    found = []
    with reading.remembering():
        for given in (first, rest, rest):
            with reading.around(model):
                found.append(model.generate(**given, generation_config=GREEDY))
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
    assert torch.equal(found[2], expected[1])
    assert [number for number in tokens if number > 3 * ROLLOUTS] == [3 * 19]

    # Afterwards weights may have changed.
    with reading.around(model):
        model.generate(**rest, generation_config=GREEDY)
    assert 2 * 12 in tokens


def test_prompts_that_were_not_read_before_are_read() -> None:
    model = small_model("Llama", READ_ONCE["Llama"])
    first = prompts()
    other = {**first, "input_ids": first["input_ids"].flip(1)}
    expected = model.generate(**other, generation_config=GREEDY)
    reading = OneReading(lambda reason: None)
    with reading.remembering(), reading.around(model):
        model.generate(**first, generation_config=GREEDY)
        assert torch.equal(model.generate(**other, generation_config=GREEDY), expected)


def test_what_is_more_than_text_is_left_alone() -> None:
    model = small_model("Llama", READ_ONCE["Llama"])
    reasons: list[str] = []
    given = {**prompts(), "generation_config": GREEDY}
    given["position_ids"] = given["attention_mask"].cumsum(dim=1) - 1
    with_one_reading(model, reasons, **given)
    assert reasons == ["`generate` is called with position_ids"]


# ---- the trainer


def test_a_step_of_the_trainer_is_the_same_in_fewer_tokens(
    make_trainer: Callable[..., Any],
) -> None:
    """Rewards of sampled rollouts decide what is kept, so equal weights say that all is equal."""
    trained = {}
    tokens = {}
    for read_once in (True, False):
        trainer = make_trainer(8, f"{read_once}", read_prompts_once=read_once, max_steps=1)
        tokens[read_once] = count_tokens(trainer.model)
        trainer.train()
        trained[read_once] = trainer

    both = [table_of(trained[read_once])["completion"].tolist() for read_once in (True, False)]
    assert both[0] == both[1]
    assert logged(trained[True])[0]["reward"] == logged(trained[False])[0]["reward"]
    for name, weight in weights(trained[True]).items():
        torch.testing.assert_close(weight, weights(trained[False])[name])

    # 2 prompts with 8 rollouts each
    length = tokens[False][0] // 16
    assert tokens[True][:2] == [2 * (length - 1), 16]


def test_it_is_on_where_rollouts_are_dropped_and_off_where_none_is(
    make_trainer: Callable[..., Any],
) -> None:
    assert make_trainer(8, "more").pods.settings.read_prompts_once
    assert not make_trainer(4, "as many").pods.settings.read_prompts_once
    assert make_trainer(4, "asked", read_prompts_once=True).pods.settings.read_prompts_once


def test_an_evaluation_reads_as_trl_does(make_trainer: Callable[..., Any], dataset: Any) -> None:
    trainer = make_trainer(8, eval_dataset=dataset.select(range(2)), per_device_eval_batch_size=8)
    tokens = count_tokens(trainer.model)
    trainer.evaluate()
    assert tokens[0] % 8 == 0
    assert tokens[1] == 8


@pytest.mark.parametrize(
    ("asked", "level"), [(None, logging.INFO), (True, logging.WARNING)], ids=["default", "asked"]
)
def test_why_each_rollout_reads_its_prompt_is_said_once(
    make_trainer: Callable[..., Any], caplog: pytest.LogCaptureFixture, asked: Any, level: int
) -> None:
    lora = LoraConfig(lora_dropout=0.1, target_modules=["q_proj"], task_type="CAUSAL_LM")
    trainer = make_trainer(8, read_prompts_once=asked, peft_config=lora, max_steps=2)
    with caplog.at_level(logging.INFO, logger="podsrl.trl"):
        trainer.train()
    said = [record for record in caplog.records if "reads its prompt" in record.message]
    assert [record.levelno for record in said] == [level]
    assert "training mode" in said[0].message


def test_the_option_is_true_false_or_left_out(tmp_path: Path) -> None:
    from podsrl.errors import InvalidInputError
    from podsrl.trl import PODSConfig

    with pytest.raises(InvalidInputError, match="read_prompts_once must be True or False"):
        PODSConfig(str(tmp_path), use_cpu=True, bf16=False, read_prompts_once="yes")
