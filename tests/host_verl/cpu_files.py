"""What a run needs: a Qwen2 of a few thousand parameters, a byte tokenizer, data, a reward."""

from pathlib import Path

import pandas as pd
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

END, PAD = "<|im_end|>", "<|endoftext|>"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_model(folder: Path, seed: int = 0) -> None:
    """A Qwen2 with hidden size 8 (5 thousand parameters) and a tokenizer of 256 bytes."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate([*symbols, PAD, "<|im_start|>", END])}
    bytes_alone = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytes_alone.decoder = decoders.ByteLevel()

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_alone,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        initializer_range=0.5,  # far from uniform, so that rollouts differ in what they earn
        bos_token_id=None,
        eos_token_id=vocabulary[END],
        pad_token_id=vocabulary[PAD],
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


def write_prompts(path: Path, count: int, agents: bool = False) -> None:
    """Problems in the columns of verl's own GSM8K parquet.

    Args:
        path: of the file.
        count: of problems.
        agents: for verl's tool agent and for the loop of cpu_bed.agents, by turns.
    """
    loops = [("double: ", "tool_agent"), ("", "again")]

    rows = []
    for i in range(count):
        question = f"{i} + {i + 3} = ?"
        row = {
            "data_source": "additions",
            "prompt": [{"role": "user", "content": question}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(2 * i + 3)},
            "extra_info": {"split": "train", "index": i},
        }
        if agents:
            request, loop = loops[i % 2]
            row["prompt"] = [{"role": "user", "content": request + question}]
            row["agent_name"] = loop
        rows.append(row)

    pd.DataFrame(rows).to_parquet(path)


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """A reward with many values that any text earns: a checksum of the answer, 0 to 1."""
    return sum(solution_str.encode()) % 11 / 10


def score_every_other(data_source, solution_str, ground_truth, extra_info=None):
    """The same for every rollout of every other prompt, whose rows have no gradient then."""
    if extra_info["index"] % 2:
        return 0.5
    return compute_score(data_source, solution_str, ground_truth)
