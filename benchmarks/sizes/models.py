"""Models by their shapes, with random weights, and a tokenizer that knows as many tokens."""

from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config

from benchmarks.sizes.shapes import PROMPT_TOKENS, Shape


def make_model(shape: Shape, device: str, dtype: torch.dtype) -> Any:
    """A model of this shape on a device, with the random weights of its initialisation."""
    with torch.device(device):
        return AutoModelForCausalLM.from_config(configuration(shape), dtype=dtype)


def configuration(shape: Shape) -> Qwen2Config:
    """The configuration of this shape, as the hub's config.json has it."""
    return Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        tie_word_embeddings=shape.ties,
        max_position_embeddings=32_768,
    )


def make_tokenizer(shape: Shape) -> PreTrainedTokenizerFast:
    """One word per token: w0, w1, ...; the last two are padding and the end."""
    words = [f"w{number}" for number in range(shape.vocabulary - 2)] + ["<pad>", "<end>"]
    model = WordLevel({word: number for number, word in enumerate(words)}, unk_token="w0")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="w0", pad_token="<pad>", eos_token="<end>"
    )


def make_prompts(count: int, tokens: int = PROMPT_TOKENS) -> Dataset:
    """Prompts that differ, each with as many tokens."""
    prompts = []
    for row in range(count):
        words = [f"w{(row * 7 + place) % 500}" for place in range(tokens)]
        prompts.append(" ".join(words))
    return Dataset.from_dict({"prompt": prompts})
