"""Tiny models that can be told what to say, with tools, environments and images."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
import trl
from datasets import Dataset
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
    Qwen2VLProcessor,
)
from trl import GRPOConfig, GRPOTrainer

from podsrl.trl import PODSConfig, PODSTrainer
from support.trl_runs import COMMON

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
TEXT = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "bos_token_id": None,
}

# A token each, as every prompt with tools says them: attention to a thousand bytes is slow.
OFTEN_SAID = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n",
    '{"name": <function-name>, "arguments": <args-json-object>}\n',
    '{"type": "function", "function": {"name": "',
    '", "description": "',
    '"type": "integer',
    '"type": "string',
    '"parameters": {"type": "object", "properties": {"',
    '}}, "required": ["',
    '"]}, "return": {',
)

Reply = Callable[[str, int], str]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A token per byte, and those of Qwen's chat, tool calls, tools and images."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: place for place, symbol in enumerate(alphabet)}
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()

    raw.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *VISION])
    added = ("<tool_call>", "</tool_call>", *OFTEN_SAID)
    raw.add_tokens([AddedToken(text, normalized=False) for text in added])

    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        chat_template=(TEMPLATES / "qwen3_vl.jinja").read_text(),
    )


class ImageProcessor(Qwen2VLProcessor):
    """Without videos, whose processor needs torchvision."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
        if argument_name != "video_processor":
            super().check_argument_for_proper_class(argument_name, argument)


def text_model(**fields: Any) -> tuple[Any, Any]:
    """A text model of some thousand weights and its tokenizer; fields of its config."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **{**TEXT, **fields},
    )
    return Qwen2ForCausalLM(config), tokenizer


def vision_model() -> tuple[Any, Any]:
    """A vision-language model of some thousand weights and its processor; 4 tokens per image."""
    tokenizer = make_tokenizer()
    images = Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, min_pixels=64, max_pixels=256, temporal_patch_size=1
    )
    processor = ImageProcessor(images, tokenizer, None, chat_template=tokenizer.chat_template)

    rope = {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 1, 2]}
    text = {
        **TEXT,
        "vocab_size": len(tokenizer),
        "rope_parameters": rope,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    vision = {
        "depth": 1,
        "embed_dim": 16,
        "hidden_size": 16,
        "num_heads": 2,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 1,
        "mlp_ratio": 2,
    }
    start, end, image, video = tokenizer.convert_tokens_to_ids(list(VISION))
    config = Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )

    torch.manual_seed(0)
    return Qwen2VLForConditionalGeneration(config), processor


def call(name: str, **arguments: Any) -> str:
    """What the model says to call a tool."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def say(trainer: Any, reply: Reply) -> None:
    """The trainer's model says reply(what it read, row of the batch) instead of sampling."""
    tokenizer = trainer._tokenizer

    def generate(input_ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        read = tokenizer.batch_decode(input_ids, skip_special_tokens=False)
        texts = []
        for row, prompt in enumerate(read):
            answer = reply(prompt.replace("<|endoftext|>", ""), row)
            texts.append(answer + "<|im_end|>")
        ids = tokenizer(texts, padding=True, padding_side="right", return_tensors="pt").input_ids
        return torch.cat([input_ids, ids], dim=1)

    trainer.model.generate = generate


def questions(**columns: Any) -> Dataset:
    """Eight prompts, and columns beside them."""
    prompts = [[{"role": "user", "content": f"question {i}"}] for i in range(8)]
    return Dataset.from_dict({"prompt": prompts, **columns})


def square(shade: int) -> Image.Image:
    """A small picture of one colour."""
    return Image.new("RGB", (16, 16), (shade, 2 * shade, 255 - shade))


def agent_trainer(n: int | None, folder: Path, reply: Reply, **fields: Any) -> Any:
    """A trainer whose model is told what to say; TRL's own for n = None.

    `model` is the function that makes the model and its tokenizer or processor, `kind` the
    trainer's class.
    """
    names = ("tools", "environment_factory", "rollout_func", "reward_funcs", "train_dataset")
    given = {name: fields.pop(name) for name in names if name in fields}
    model, processing = fields.pop("model", text_model)()
    kind = fields.pop("kind", PODSTrainer)

    options: dict[str, Any] = {
        **COMMON,
        "max_completion_length": 512,
        "learning_rate": 1e-2,
        "output_dir": str(folder),
        "shuffle_dataset": False,
        **fields,
    }
    if n is None:
        kind = GRPOTrainer
        args = GRPOConfig(**options)
    else:
        args = PODSConfig(num_rollouts=n, **options)

    trainer = kind(model=model, args=args, processing_class=processing, **given)
    say(trainer, reply)
    return trainer
