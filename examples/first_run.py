from datasets import Dataset

from podsrl.trl import PODSConfig, PODSTrainer


def right(completions, answer, **columns):  # your reward: one number for each completion
    last = [c[0]["content"].replace(",", "").rstrip(". \n").split()[-1:] for c in completions]
    return [float(word == [a]) for word, a in zip(last, answer, strict=True)]


def question(a, b):
    ask = f"What is {a} * {b}? Answer with the number alone."
    return {"prompt": [{"role": "user", "content": ask}], "answer": str(a * b)}


data = Dataset.from_list([question(a, b) for a in range(2, 60) for b in range(2, 60)])
args = PODSConfig(
    "out",
    learning_rate=1e-5,
    per_device_train_batch_size=32,
    max_completion_length=16,
    max_steps=200,
)
trainer = PODSTrainer("Qwen/Qwen2.5-0.5B-Instruct", right, args=args, train_dataset=data)
trainer.train()  # each step: 4 prompts, 128 rollouts; 32 are trained on
