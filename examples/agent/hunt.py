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
SMALL_HUNT = {"top": 8, "calls": 3}
LARGE_HUNT = {"top": 98, "calls": 5}
GAMES = 1536
UNSEEN = 512  # of them
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
        self.boxes = boxes
        self.notes = notes
        self.found = 0
        self.lost = False
        return f" Begin with box {boxes[0]}."

    def open(self, box: int) -> str:
        """Open a box. It holds the gold, or a note on where to look next; a wrong one loses.

        Args:
            box: Its number.
        """
        is_over = self.lost or self.found == len(self.boxes)
        if is_over or box != self.boxes[self.found]:
            self.lost = True
            return "lost"

        self.found += 1
        if self.found == len(self.boxes):
            return "gold"
        return self.notes[self.found - 1]

    def get_reward(self) -> float:
        return float(self.found == len(self.boxes) and not self.lost)


def hunt(draw: random.Random, top: int, calls: int) -> dict[str, Any]:
    """A game over boxes 1 to `top`; a note says beside which box the next one stands."""
    boxes = draw.sample(range(1, top + 1), calls)
    notes = []
    for box in boxes[1:]:
        side, neighbour = draw.choice([("right", box - 1), ("left", box + 1)])
        notes.append(f"{side} of {neighbour}")
    prompt = [{"role": "user", "content": TEXT.format(top)}]
    return {"prompt": prompt, "boxes": boxes, "notes": notes}


def careless_game(draw: random.Random) -> list[tuple[str, bool]]:
    """A careless player's game as pieces of text; True marks what the model learns to write."""
    game = Hunt()
    row = hunt(draw, **SMALL_HUNT)
    question = row["prompt"][0]["content"] + game.reset(**row)
    pieces = [(f"{question}\n>", False)]

    answer = ""
    while answer not in ("gold", "lost"):
        is_careful = draw.random() < 0.65
        box = game.boxes[game.found] if is_careful else draw.randint(1, SMALL_HUNT["top"])
        answer = game.open(box)
        pieces.append((f'open{{"box": {box}}}<eos>', True))
        pieces.append((f"{answer}\n>", False))
    return [*pieces, (f"{answer}<eos>", True)]


def embedded_model(seed: int) -> tuple[Any, Any]:
    """An embedded model that has seen careless games, and its tokenizer."""
    # A token per byte; here each phrase of the game is one as well.
    tokenizer = build_tokenizer()
    question = TEXT.format(SMALL_HUNT["top"])
    for phrase in (question, " Begin with box ", 'open{"box": ', "right of ", "left of "):
        tokenizer.add_tokens([AddedToken(phrase, special=False, normalized=False)])

    tokenizer.chat_template = (  # a call is name{"argument": value}
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ '>' + m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments | tojson }}"
        "{% endfor %}{{ eos_token }}{% else %}{{ m.content + '\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '>' }}{% endif %}"
    )

    # How a completion is read back.
    call = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
    tokenizer.response_template = {
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
    """Train; the share of unseen games that are won before and after."""
    seed = settings["seed"]
    if model is None:
        start, tokenizer = embedded_model(seed)
        size = SMALL_HUNT
    else:
        start, tokenizer = model, None  # which TRL loads
        size = LARGE_HUNT

    draw = random.Random(seed)
    games = Dataset.from_list([hunt(draw, **size) for _ in range(GAMES)])
    trainer = PODSTrainer(
        start,
        args=PODSConfig(max_tool_calling_iterations=size["calls"], **settings),
        train_dataset=games.select(range(UNSEEN, GAMES)),
        eval_dataset=games.select(range(UNSEEN)),
        environment_factory=Hunt,
        processing_class=tokenizer,
    )
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(WonBar)

    before = trainer.evaluate()["eval_reward"]
    trainer.train()
    after = trainer.evaluate()["eval_reward"]
    return before, after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", help="of the hub; without it the embedded one is trained")
    parser.add_argument("--output_dir", default="runs/agent")
    parser.add_argument("--max_steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry-run", action="store_true", help="print the settings and stop")
    args = parser.parse_args()

    settings = {
        **(LARGE if args.model else SMALL),
        "seed": args.seed,
        "output_dir": args.output_dir,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "per_device_eval_batch_size": 256,
        "num_generations_eval": 1,
    }
    if args.max_steps:
        settings["max_steps"] = args.max_steps
    if args.dry_run:
        print("# one GPU of 80 GB, not measured" if args.model else "# two CPU cores, 3 minutes")
        for name, value in settings.items():
            print(f"{name}: {value}")
        return

    before, after = train(args.model, settings)

    page = f"{args.output_dir}/rollouts.html"
    pods(["inspect", args.output_dir, "--export", page])
    steps = [row for row in RunFolder(args.output_dir).metrics() if "reward" in row]
    won = [row["reward"] for row in steps]
    bars = ["▁▂▃▄▅▆▇█"[round(7 * share)] for share in won]
    print("games won, step by step:", "".join(bars))
    print(f"unseen games won: {before:.0%} before, {after:.0%} after")


if __name__ == "__main__":
    main()
