"""A model learns to follow notes from box to box to the gold, through a tool, by GRPO-PODS.

    python examples/agent/hunt.py                     # the embedded model, on a CPU
    python examples/agent/hunt.py --model Qwen/Qwen2.5-3B-Instruct --dry-run

The embedded model has seen careless players, who open any box 35 times out of 100. A game has
three calls, and one wrong box loses it: a third is won. The reward is 1 for the gold, else 0.
"""

import argparse
import random
from typing import Any

from datasets import Dataset
from tokenizers import AddedToken
from tqdm import tqdm
from transformers import ProgressCallback

from podslab.models.tiny import TinySettings
from podslab.models.tiny.build import build
from podslab.models.tiny.tokenizer import build_tokenizer
from podsrl.cli import main as pods
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import PODSConfig, PODSTrainer

TEXT = "Find the gold in boxes 1 to {} with open."
# n games are played of each hunt, and m of them are trained on
SMALL = {  # 8 hunts per step
    "max_steps": 80,
    "num_rollouts": 16,
    "num_generations": 4,
    "per_device_train_batch_size": 32,
    "max_completion_length": 40,
    "learning_rate": 3e-4,
    "use_cpu": True,
    "bf16": False,
}
LARGE = {  # 8 hunts per step as well, in 8 micro-batches
    "max_steps": 200,
    "num_rollouts": 32,
    "num_generations": 8,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 8,
    "max_completion_length": 1024,
    "learning_rate": 1e-6,
    "gradient_checkpointing": True,
    "model_init_kwargs": {"dtype": "bfloat16"},
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.3,
}
SMALL_HUNT, LARGE_HUNT = {"top": 8, "calls": 3}, {"top": 98, "calls": 5}
SIZE = {  # of the embedded model; a tenth of the demo's
    "hidden_size": 64,
    "intermediate_size": 128,
    "layers": 2,
    "heads": 2,
    "key_value_heads": 2,
    "learning_rate": 4e-3,
}


class Hunt:
    """Boxes with notes that lead to the gold."""

    def reset(self, boxes: list[int], notes: list[str], **row: Any) -> str:
        self.boxes, self.notes, self.found, self.lost = boxes, notes, 0, False
        return f" Begin with box {boxes[0]}."

    def open(self, box: int) -> str:
        """Open a box. It holds the gold, or a note on where to look next; a wrong one loses.

        Args:
            box: Its number.
        """
        self.lost = self.lost or self.found == len(self.boxes) or box != self.boxes[self.found]
        if self.lost:
            return "lost"
        self.found += 1
        return "gold" if self.found == len(self.boxes) else self.notes[self.found - 1]

    def get_reward(self) -> float:
        return float(self.found == len(self.boxes) and not self.lost)


def hunt(draw: random.Random, top: int, calls: int) -> dict[str, Any]:
    """A game over boxes 1 to `top`; a note says beside which box the next one stands."""
    boxes = draw.sample(range(1, top + 1), calls)
    sides = [draw.choice((("right", -1), ("left", 1))) for _ in boxes[1:]]
    notes = [f"{way} of {box + by}" for box, (way, by) in zip(boxes[1:], sides, strict=True)]
    prompt = [{"role": "user", "content": TEXT.format(top)}]
    return {"prompt": prompt, "boxes": boxes, "notes": notes}


def careless_game(draw: random.Random) -> list[tuple[str, bool]]:
    """One as text; True where the model learns to write it."""
    game, answer, row = Hunt(), "", hunt(draw, **SMALL_HUNT)
    pieces = [(row["prompt"][0]["content"] + game.reset(**row) + "\n>", False)]
    while answer not in ("gold", "lost"):
        box = game.boxes[game.found] if draw.random() < 0.65 else draw.randint(1, 8)
        answer = game.open(box)
        pieces += [(f'open{{"box": {box}}}<eos>', True), (f"{answer}\n>", False)]
    return [*pieces, (f"{answer}<eos>", True)]


def embedded_model(seed: int) -> tuple[Any, Any]:
    """An embedded model that has seen careless games, and its tokenizer."""
    tokenizer = build_tokenizer()  # a token per byte; here each phrase of the game is one as well
    phrases = (TEXT.format(8), " Begin with box ", *('open{"box": ', "right of ", "left of "))
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in phrases])
    tokenizer.chat_template = (  # a call is name{"argument": value}
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ '>' + m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments | tojson }}"
        "{% endfor %}{{ eos_token }}{% else %}{{ m.content + '\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '>' }}{% endif %}"
    )
    call = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
    tokenizer.response_template = {  # how it is read back
        "defaults": {"role": "assistant"},
        "start_anchor": ">",
        "fields": {
            "tool_calls": {
                "open_pattern": r"(?P<name>\w+)(?=\{)",
                "close": "<eos>",
                "repeats": True,
                "content": "json",
                "transform": call,
            },
            "content": {"close": "<eos>", "content": "text"},
        },
    }
    tiny = TinySettings(seed=seed, **SIZE)
    return build(tiny, lambda steps: tqdm(steps, "warm start"), "cpu", tokenizer, careless_game)


class WonBar(ProgressCallback):
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if self.training_bar is not None and "reward" in (logs or {}):
            self.training_bar.set_postfix(won=f"{logs['reward']:.0%}")


def train(model: str | None, settings: dict[str, Any]) -> tuple[float, float]:
    """Train; the share of 512 unseen games that are won before and after."""
    start, tokenizer = (model, None) if model else embedded_model(settings["seed"])
    draw, kind = random.Random(settings["seed"]), LARGE_HUNT if model else SMALL_HUNT
    data = Dataset.from_list([hunt(draw, **kind) for _ in range(1536)])
    trainer = PODSTrainer(
        start,
        args=PODSConfig(max_tool_calling_iterations=kind["calls"], **settings),
        train_dataset=data.select(range(512, 1536)),
        eval_dataset=data.select(range(512)),
        environment_factory=Hunt,
        processing_class=tokenizer,
    )
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(WonBar)
    before = trainer.evaluate()["eval_reward"]
    trainer.train()
    return before, trainer.evaluate()["eval_reward"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", help="of the hub; without it the embedded one is trained")
    parser.add_argument("--output_dir", default="runs/agent")
    parser.add_argument("--max_steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry-run", action="store_true", help="print the settings and stop")
    given = parser.parse_args()
    settings = {
        **(LARGE if given.model else SMALL),
        "seed": given.seed,
        "output_dir": given.output_dir,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "per_device_eval_batch_size": 256,
        "num_generations_eval": 1,
    }
    settings["max_steps"] = given.max_steps or settings["max_steps"]
    if given.dry_run:
        print("# one GPU of 80 GB, not measured" if given.model else "# two CPU cores, 3 minutes")
        print("\n".join(f"{name}: {value}" for name, value in settings.items()))
        return
    before, after = train(given.model, settings)
    pods(["inspect", given.output_dir])
    won = [row["reward"] for row in RunFolder(given.output_dir).metrics()]
    print("games won, step by step:", "".join("▁▂▃▄▅▆▇█"[round(7 * share)] for share in won))
    print(f"unseen games won: {before:.0%} before, {after:.0%} after")


if __name__ == "__main__":
    main()
