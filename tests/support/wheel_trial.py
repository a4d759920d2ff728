"""Runs every command of an installed podsrl in one process, from an empty folder.

    cd $(mktemp -d) && VENV/bin/python tests/support/wheel_trial.py

The last line of its output is a JSON object: where podsrl was imported from, and the modules that
were loaded after `import podsrl`, after `pods --help`, and by `import podsrl.trl` after TRL's own.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path

WATCHED = ("array_api_compat.torch", "matplotlib", "scipy", "torch", "transformers", "trl", "verl")
SUMS = '{"min_columns": 2, "max_columns": 2, "train_size": 32, "test_size": 8}'
TINY = (
    '{"min_columns": 1, "max_columns": 2, "steps": 3, "batch_size": 4, "hidden_size": 16,'
    ' "intermediate_size": 16, "layers": 1, "heads": 2, "key_value_heads": 1}'
)
SMALL = {
    "task_options": SUMS,
    "tiny_options": TINY,
    "max_steps": 2,
    "num_rollouts": 8,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "max_completion_length": 8,
    "evaluation_problems": 2,
    "evaluation_repeats": 1,
    "evaluation_steps": 2,
    "save_steps": 2,
}
FLAGS = [text for name, value in SMALL.items() for text in (f"--{name}", str(value))]
THREE_STEPS = ["--max_steps", "3", "--save_steps", "3", "--evaluation_steps", "3"]
COMPARISON = f"""
config: arithmetic
settings: {{task_options: {SUMS}, tiny_options: {TINY}, num_rollouts: 8, num_generations: 4,
  per_device_train_batch_size: 8, max_completion_length: 8, evaluation_problems: 2,
  evaluation_repeats: 1}}
arms: {{pods: {{}}}}
seeds: 1
budget: {{steps: 1}}
evaluations: 1
"""


def loaded() -> list[str]:
    return [name for name in WATCHED if name in sys.modules]


def run_all() -> dict[str, list[str]]:
    """Each command, small; fails if one does. Gives what was loaded on the way."""
    import podsrl

    after = {"import podsrl": loaded()}
    podsrl.downsample([[0, 0, 1, 1]], m=2)
    from podsrl.cli import main

    with suppress(SystemExit):
        main(["--help"])
    after["pods --help"] = loaded()
    from trl import GRPOTrainer  # noqa: F401 # transformers loads a part of scipy, if it is there

    before = set(sys.modules)
    import podsrl.trl

    after["import podsrl.trl"] = sorted(sys.modules.keys() - before)
    rollouts = Path("rollouts.jsonl")
    rollouts.write_text('{"prompt": "1+1", "reward": 0}\n{"prompt": "1+1", "reward": 1}\n' * 2)
    Path("comparison.yaml").write_text(COMPARISON)
    options = ["--task", "arithmetic", "--task_options", SUMS, "--problems", "2"]
    for words in (
        ["demo", "--output_dir", "demo", *FLAGS],
        ["train", "--config", "arithmetic", "--output_dir", "run", *FLAGS, *THREE_STEPS],
        ["evaluate", "run/checkpoint-3", *options, "--max_completion_length", "8"],
        ["select", str(rollouts), "--keep", "2", "--output", "kept.jsonl"],
        ["compare", "--config", "comparison.yaml", "--output_dir", "comparison"],
        ["report", "comparison", "--out", "report"],
        ["tasks"],
        ["tasks", "check", "arithmetic", "--limit", "3"],
        ["recommend", "run", "--out", "plan"],
        ["recommend", "--costs", "generate=0.05,update=0.4", "--pass_rates", "0.5"],
    ):
        print(f"$ pods {' '.join(words)}", flush=True)
        code = main(words)
        if code:
            sys.exit(f"pods {words[0]} ended with {code}")
    return after


if __name__ == "__main__":  # Windows and macOS start processes by importing this file again
    after = run_all()
    import podsrl

    print(json.dumps({"podsrl": podsrl.__file__, "loaded": after}))
