from datasets import Dataset

from podslab.models import resolve
from podslab.tasks import get_task
from podsrl.trl import PODSConfig, PODSTrainer


def right(completions, answer, **columns):  # your reward: one number for each completion
    return [float(f">{a}<" in c[0]["content"]) for c, a in zip(completions, answer, strict=True)]


task = get_task("arithmetic")  # sums of four digits; yours: any rows with a "prompt"
rows = [{"prompt": task.prompt(row), "answer": row["answer"]} for row in task.load("train")]
args = PODSConfig("out", num_generations=1, num_rollouts=4, downsampling_rule="max_reward",
                  advantage_baseline="group", per_device_train_batch_size=64, max_steps=40,
                  max_completion_length=64, learning_rate=1.5e-4, bf16=False,
                  logging_steps=1)  # fmt: skip
trainer = PODSTrainer(resolve("tiny"), right, args=args, train_dataset=Dataset.from_list(rows))
trainer.train()
first, *_, last = [log["reward"] for log in trainer.state.log_history if "reward" in log]
print(f"right in the first step {first:.0%}, in the last {last:.0%}")
