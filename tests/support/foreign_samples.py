"""A sample of every format that the inspector opens: the program's own, or by its schema."""

import gzip
import json
import shutil
from pathlib import Path

from support.inspected import age

DATA = Path(__file__).parents[1] / "data" / "rollouts"


def write_lines(path, rows, end="\n"):
    """A JSONL file, old enough that nobody seems to be writing it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows) + end)
    age(path)
    return path


def copied(name, folder):
    """A folder of a program's own files."""
    shutil.copytree(DATA / name, folder)
    age(*(path for path in folder.rglob("*") if path.is_file()))
    return folder


def unpacked(name, target):
    """A program's own file, which is kept packed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.decompress((DATA / name).read_bytes()))
    age(target)
    return target


# ---- by schema -----------------------------------------------------------------------------------


def verl_rows(step, questions=("a", "b"), n=4, **more):
    """verl 0.9 `_dump_generations`: without a field that says which prompt a row is of."""
    return [
        {
            "input": f"user\n{question}?\nassistant\n",
            "output": f"answer {place}",
            "gts": question,
            "score": float(place % 2),
            "step": step,
            "acc": place % 2 == 1,
            **more,
        }
        for question in questions
        for place in range(n)
    ]


def verl(folder):
    for step in (1, 2):
        write_lines(folder / f"{step}.jsonl", verl_rows(step))
    return folder


def ms_swift(folder):
    """ms-swift 4.6: columns in a line, steps as texts, what else was logged after advantages."""
    lines = [
        {
            "step": [str(step)] * 4,
            "prompt": ["user\n1+1\n"] * 2 + ["user\n2+2\n"] * 2,
            "completion": ["2", "3", "4", "5"],
            "Accuracy": [1.0, 0.0, 1.0, None],
            "Format": [1.0, 1.0, 0.0, 0.0],
            "advantages": [0.7, -0.7, 0.7, -0.7],
            "solution": ["2", "2", "4", "4"],
            "entropy": [0.1, 0.2, 0.3, 0.4],
        }
        for step in (1, 2)
    ]
    write_lines(folder / "completions.jsonl", lines)
    return folder


def nemo_rl(folder):
    """NeMo-RL 0.7: each line a batch of one, whose tensors became lists."""
    for step in (1, 2):
        lines = [
            {
                "content": [[f"What is {group}+1?", f"It is {place}."]],
                "rewards": [float(place % 2)],
                "input_lengths": [5],
                "token_ids": [[1, 2, 3, 4, 5, 0]],
                "token_loss_mask": [[0, 0, 1, 1, 1, 0]],
                "sample_loss_mask": [1.0],
                "advantages": [[place % 2 - 0.5] * 6],
                "generation_logprobs": [[0.0, 0.0, -0.1, -2.5, -0.3, 0.0]],
                "prev_logprobs": [[0.0, 0.0, -0.1, -2.4, -0.3, 0.0]],
                "idx": 4 * group + place,
            }
            for group in range(2)
            for place in range(4)
        ]
        write_lines(folder / f"train_data_step{step}.jsonl", lines)
    write_lines(folder / "val_data_step1.jsonl", [{"content": [["?", "!"]], "rewards": [1.0]}])
    return folder


def torchtitan(folder):
    """TorchTitan's `RolloutSampleRecorder` of August 2026, with log-probabilities."""
    rows = [
        {
            "is_validation": is_validation,
            "group_id": f"{version}-{group}",
            "rollout_id": place,
            "status": "completed",
            "reward": float(place),
            "reward_breakdown": {"correct": float(place)},
            "advantage": place - 0.5,
            "turns": [
                {
                    "turn_id": 0,
                    "min_policy_version": version,
                    "max_policy_version": version,
                    "prompt_messages": [{"role": "user", "content": f"sort: b a {group}"}],
                    "completion_message": {"role": "assistant", "content": f"a b {place}"},
                    "env_messages": [],
                    "env_rewards": [],
                    "completion_logprobs": [-0.5, -1.5],
                }
            ],
        }
        for version in (0, 1)
        for is_validation in (True, False)
        for group in range(2)
        for place in range(2)
    ]
    write_lines(folder / "rollout_samples.jsonl", rows)
    return folder


def verifiers_results(folder):
    """verifiers before 0.4: `results.jsonl` beside `metadata.json`."""
    rows = [
        {
            "example_id": example,
            "prompt": [{"role": "user", "content": "Same question?"}],
            "completion": [{"role": "assistant", "content": f"yes {place}"}],
            "answer": "yes",
            "reward": place / 2,
            "metrics": {"right": place / 2},
            "right": place / 2,
            "is_completed": True,
            "is_truncated": False,
            "timing": {},
        }
        for example in range(2)
        for place in range(3)
    ]
    write_lines(folder / "results.jsonl", rows)
    (folder / "metadata.json").write_text("{}")
    return folder


def messages(folder):
    """OpenAI-style messages with a reward, the step in an object of its own."""
    rows = [
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": f"{group}+{group}?"},
                {"role": "assistant", "content": f"{place}"},
            ],
            "reward": float(place),
            "__metadata__": {"step": step},
        }
        for step in (3, 4)
        for group in range(2)
        for place in range(2)
    ]
    return write_lines(folder / "chat.jsonl", rows)


def slime(folder):
    """slime's `--dump-details`."""
    import torch

    target = folder / "rollout_data"
    target.mkdir(parents=True)
    samples = [
        {
            "group_index": place // 4,
            "index": place,
            "prompt": f"{place // 4}+1?",
            "response": f"say {place}",
            "response_length": 3,
            "label": "4",
            "reward": float(place % 2),
            "rollout_log_probs": [-0.5, -0.1, -3.0],
            "status": "completed",
            "metadata": {},
        }
        for place in range(8)
    ]
    torch.save({"rollout_id": 0, "samples": samples}, target / "rollout_0.pt")
    age(target / "rollout_0.pt")
    return folder


# ---- all of them ---------------------------------------------------------------------------------

#: What makes a sample of each format in a folder, and gives the path that is opened.
SAMPLES = {
    "trl": lambda folder: copied("trl", folder),
    "prime-rl": lambda folder: copied("prime_rl", folder),
    "verifiers": lambda folder: copied("verifiers", folder),
    "trackio": lambda folder: unpacked("trackio/demo.db.gz", folder / "demo.db"),
    "inspect .eval": lambda folder: copied("inspect", folder) / "log.eval",
    "inspect .json": lambda folder: unpacked("inspect/log.json.gz", folder / "log.json"),
    "verl": verl,
    "slime": slime,
    "ms-swift": ms_swift,
    "nemo-rl": nemo_rl,
    "torchtitan": torchtitan,
    "verifiers before 0.4": verifiers_results,
    "messages": messages,
}
