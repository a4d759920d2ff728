"""A real training in a process of its own, which takes each step when a test lets it.

    python -m support.paced_training FOLDER STEPS

trains a tiny model with random weights into FOLDER/out; step K begins once FOLDER/go-K is there.
"""

import sys
import time
from pathlib import Path
from typing import Any

from support.wheel_trial import digits, tiny_model


def train(folder: Path, steps: int) -> None:
    """Train, each step when it may."""
    from datasets import Dataset
    from transformers import TrainerCallback

    from podsrl.trl import PODSConfig, PODSTrainer

    class Waits(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            while not (folder / f"go-{state.global_step + 1}").exists():
                time.sleep(0.05)

    model, tokenizer = tiny_model()
    args = PODSConfig(
        output_dir=str(folder / "out"),
        num_generations=2,
        num_rollouts=4,
        per_device_train_batch_size=8,
        max_completion_length=16,
        max_steps=steps,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    dataset = Dataset.from_list([{"prompt": f"{a}+{b}="} for a in range(9) for b in range(9)])
    trainer = PODSTrainer(
        model, reward_funcs=digits, args=args, train_dataset=dataset, processing_class=tokenizer
    )
    trainer.add_callback(Waits())
    trainer.train()


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
