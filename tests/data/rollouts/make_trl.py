"""A run of TRL's own GRPOTrainer with log_completions=True: python make_trl.py MODEL OUT."""

import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from podslab.tasks import get_task
from podslab.training.run import with_prompts


def right(completions, answer, **columns):
    """Whether the answer is in the completion."""
    return [float(a in text_of(c)) for c, a in zip(completions, answer, strict=True)]


def brief(completions, **columns):
    """Shorter ones get more, 1 at most."""
    return [1 / (1 + len(text_of(c))) for c in completions]


def text_of(completion):
    """Of a conversation its last message."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def train(model: str, out: str) -> None:
    """Two steps, of two prompts with four rollouts each."""
    task = get_task("arithmetic", min_columns=2, max_columns=2, train_size=16, test_size=4)
    args = GRPOConfig(
        out,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=16,
        max_steps=2,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        seed=7,
        log_completions=True,
    )
    trainer = GRPOTrainer(
        model,
        reward_funcs=[right, brief],
        args=args,
        train_dataset=Dataset.from_list(with_prompts(task, task.load("train"))),
    )
    trainer.train()


if __name__ == "__main__":
    train(*sys.argv[1:])
