"""A task of your own on a pretrained model: SmolLM2-135M counts letters, after a look at solutions.

After char_count of verl-recipe (github.com/verl-project/verl-recipe), with shorter words. The model
is first shown worked solutions, in supervised training with TRL; then it learns from rewards alone.

    python examples/char_count.py      # 2 minutes on two cores: makes runs/char-count/start
    pods train --config numbers --task examples/char_count.py \\
        --model_name_or_path runs/char-count/start --output_dir runs/char-count/pods \\
        --max_completion_length 80 --learning_rate 5e-6 --evaluation_problems 256 --max_steps 30
"""

import random
import re
import string
from collections.abc import Mapping
from typing import Any

from podslab.tasks import Grade, Task
from podslab.tasks.base import Messages, Row

START = "runs/char-count/start"
SHOWN = 512  # solutions in supervised training
LETTERS = (3, 8)  # of a word
_BOXED = re.compile(r"\\boxed\{(\d+)\}")


class CharCount(Task):
    """How often a letter stands in a word of random letters, letter by letter."""

    name = "char_count"
    summary = "counting a letter in a made-up word, letter by letter"
    source = "after char_count of verl-recipe; the words are made up here, from a seed"
    example = {"question": "How many n are there in n-i-n-e?", "answer": "2"}  # noqa: RUF012
    example_right = "n = n\ni != n\nn = n\ne != n\n\\boxed{2}"
    example_wrong = "\\boxed{3}"

    def __init__(self, train_size: int = 4096, test_size: int = 256) -> None:
        self._sizes = {"train": train_size, "test": test_size}

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer` and a worked `solution`."""
        draw = random.Random(split)
        return [_row(draw) for _ in range(self._sizes[split])]

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """The question alone: the form was learned from solutions."""
        # Without a system message the template of SmolLM2 would write one of its own.
        return [{"role": "system", "content": ""}, {"role": "user", "content": row["question"]}]

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The answer in its box."""
        return f"\\boxed{{{row['answer']}}}"

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right is a completion with one box, which holds the right number."""
        boxed = _BOXED.findall(completion)
        return Grade(boxed == [row["answer"]], len(boxed) == 1)


def _row(draw: random.Random) -> Row:
    length = draw.randint(*LETTERS)
    times = draw.randint(1, length)
    letter, *others = draw.sample(string.ascii_lowercase, k=9)
    word = [letter] * times + draw.choices(others, k=length - times)
    draw.shuffle(word)
    lines = [f"{one} {'=' if one == letter else '!='} {letter}" for one in word]
    return {
        "question": f"How many {letter} are there in {'-'.join(word)}?",
        "answer": str(times),
        "solution": "\n".join([*lines, f"\\boxed{{{times}}}"]),
    }


def main() -> None:
    """Show the model solutions, and save it."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    from podslab.models import resolve
    from podslab.training.lab_trainer import has_bfloat16

    path = resolve("smollm2")
    task = CharCount()
    tokenizer = AutoTokenizer.from_pretrained(path)
    solved = []
    for row in task.load("train")[-SHOWN:]:
        completion = [{"role": "assistant", "content": row["solution"]}]
        solved.append({"prompt": task.prompt(row), "completion": completion})

    args = SFTConfig(
        "runs/char-count/shown",
        per_device_train_batch_size=16,
        num_train_epochs=1,
        learning_rate=5e-5,
        lr_scheduler_type="constant",
        logging_steps=8,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=has_bfloat16(),
        gradient_checkpointing=False,
    )
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype="float32")
    data = Dataset.from_list(solved)
    trainer = SFTTrainer(model, args=args, train_dataset=data, processing_class=tokenizer)
    trainer.train()

    model.save_pretrained(START)
    tokenizer.save_pretrained(START)
    print(f"saved {START}")


if __name__ == "__main__":
    main()
