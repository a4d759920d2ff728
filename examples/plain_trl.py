"""A plain TRL script, as many have one: GRPO with LoRA on questions of one's own.

    pip install '.[trl]'
    python examples/plain_trl.py MODEL                      # trains with GRPO; nothing of podsrl
    pods compare 'examples/plain_trl.py MODEL' --dry-run    # what a comparison with PODS would do
    pods compare 'examples/plain_trl.py MODEL' --hours 1    # does PODS pay on these questions?

MODEL is a folder or a name on the hub of any chat model.
"""

import itertools
import random
import re
import sys

import torch
from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

rng = random.Random(0)


def question(pair):
    a, b = rng.sample(pair, 2)  # either may stand first
    turns = ["Which is larger?", "17 or 12", "17", f"{a} or {b}"]  # an example shows the form
    roles = ["system", "user", "assistant", "user"]
    prompt = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
    return {"prompt": prompt, "answer": str(max(a, b))}


def is_right(completions, answer, **columns):
    numbers = [re.findall(r"\d+", completion[0]["content"]) for completion in completions]
    return [float(found == [right]) for found, right in zip(numbers, answer, strict=True)]


if __name__ == "__main__":
    # No pair of numbers is both trained on and asked for in the evaluation.
    pairs = rng.sample(list(itertools.combinations(range(10, 100), 2)), 1200)
    questions = [question(pair) for pair in pairs]

    trainer = GRPOTrainer(
        model=sys.argv[1],
        reward_funcs=is_right,
        args=GRPOConfig(
            "plain_trl_output",
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=6,
            learning_rate=1e-4,
            max_steps=300,
            report_to="none",
            use_cpu=not torch.cuda.is_available(),
            bf16=torch.cuda.is_available(),
        ),
        train_dataset=Dataset.from_list(questions[:1000]),
        eval_dataset=Dataset.from_list(questions[1000:]),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
    )
    trainer.train()
    trainer.save_model("plain_trl_output/final")
