"""Tries an installed podsrl, without its laboratory, in an empty folder.

    cd $(mktemp -d) && VENV/bin/python tests/support/wheel_trial.py

`PODSTrainer` trains a tiny model with random weights; `pods select` and `pods inspect` read what
the run left. `import podsrl` and `pods --help` must load no trainer.
"""

import string
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

WATCHED = ("matplotlib", "podsgrading", "podslab", "scipy", "torch", "transformers", "trl", "verl")


def loaded() -> list[str]:
    """Those packages that are loaded and that the rules and `--help` must not need."""
    return [name for name in WATCHED if name in sys.modules]


def tiny_model() -> tuple[Any, Any]:
    """A model of some thousand random weights, and a tokenizer of single characters."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokens = ["<pad>", "<eos>", *string.printable]
    words = Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )
    config = Qwen2Config(
        vocab_size=len(tokens),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        pad_token_id=0,
        eos_token_id=1,
    )
    return Qwen2ForCausalLM(config), tokenizer


def digits(completions: list[str], **columns: Any) -> list[float]:
    """The reward: how many digits a completion has."""
    return [float(sum(map(str.isdigit, text))) for text in completions]


def train() -> None:
    """Two steps, set up as in the README."""
    from datasets import Dataset

    from podsrl.trl import PODSConfig, PODSTrainer

    model, tokenizer = tiny_model()
    args = PODSConfig(
        output_dir="out",
        num_generations=1,
        num_rollouts=4,
        downsampling_rule="max_contrast",
        per_device_train_batch_size=8,
        max_completion_length=16,
        max_steps=2,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    dataset = Dataset.from_list([{"prompt": f"{a}+{b}="} for a in range(9) for b in range(9)])
    trainer = PODSTrainer(
        model, reward_funcs=digits, args=args, train_dataset=dataset, processing_class=tokenizer
    )
    trainer.train()


def pods(*words: str) -> None:
    """Run a command; the trial fails if it does."""
    from podsrl.cli import main

    print(f"$ pods {' '.join(words)}", flush=True)
    if code := main(words):
        sys.exit(f"pods {words[0]} ended with {code}")


def try_all() -> None:
    """Everything in turn."""
    import podsrl

    podsrl.downsample([[0, 0, 1, 1]], m=2)
    for word in ("--help", "--version"):
        with suppress(SystemExit):
            pods(word)
    if found := loaded():
        sys.exit(f"the rules or `pods --help` loaded {found}")

    train()
    pods("select", "out", "--keep", "2", "--output", "kept.parquet")
    rollouts = Path("rollouts.jsonl")
    rollouts.write_text('{"prompt": "1+1", "reward": 0}\n{"prompt": "1+1", "reward": 1}\n' * 2)
    pods("select", str(rollouts), "--keep", "2", "--output", "kept.jsonl")
    pods("inspect", "out", "--export", "out/rollouts.html")

    wanted = ("kept.jsonl", "kept.parquet", "out/finished.json", "out/rollouts.html")
    if missing := [name for name in wanted if not Path(name).is_file()]:
        sys.exit(f"not written: {missing}")


if __name__ == "__main__":
    try_all()
