"""The task of sums.yaml: the embedded model, its sums, and their reward.

python examples/axolotl/sums_for_axolotl.py    # writes runs/axolotl/model and sums.jsonl
"""

import json
import shutil
from pathlib import Path

FOLDER = Path("runs/axolotl")


def right(prompts, completions, answer, **columns):
    """1 for the right sum, else 0."""
    texts = [one[0]["content"] for one in completions]
    return [float(f">{a}<" in text) for text, a in zip(texts, answer, strict=True)]


def write() -> None:
    """Write the model and the dataset."""
    from podslab.models import resolve
    from podslab.tasks import get_task

    shutil.copytree(resolve("tiny"), FOLDER / "model", dirs_exist_ok=True)
    task = get_task("arithmetic")
    rows = [{"prompt": task.prompt(row), "answer": row["answer"]} for row in task.load("train")]
    lines = [json.dumps(row) + "\n" for row in rows]
    (FOLDER / "sums.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write()
