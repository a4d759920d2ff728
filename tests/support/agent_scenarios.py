"""What tiny models are told to say, and the tools and environments that they say it to."""

import re
import threading
from typing import Any

from support.agents import call, questions, square, vision_model


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.

    Returns:
        Their sum.
    """
    if a == 5:
        raise RuntimeError("I can't add to 5")
    return a + b


async def multiply(a: int, b: int) -> int:
    """Multiply two numbers.

    Args:
        a: The first.
        b: The second.

    Returns:
        Their product.
    """
    return a * b


def look(shade: int) -> list:
    """Take a picture.

    Args:
        shade: Of which colour.

    Returns:
        The picture.
    """
    return [{"type": "image", "image": square(shade)}, {"type": "text", "text": "a picture"}]


class Counter:
    """Counts; its reward is where it got to."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.count = -1
        self.lock = threading.Lock()  # as a sandbox has it: it can't be sent to another process

    def reset(self, **kwargs: Any) -> str:
        self.count = 0
        return " Count!"

    def up(self, step: int) -> int:
        """Count on.

        Args:
            step: How far.

        Returns:
            Where it is now.
        """
        self.count += step
        return self.count

    def get_reward(self) -> float:
        return float(self.count)


class Echo:
    """Says what it hears; its reward is how much it heard."""

    def reset(self, **kwargs: Any) -> None:
        self.heard = ""

    async def shout(self, text: str) -> str:
        """Shout.

        Args:
            text: What.

        Returns:
            It in capitals.
        """
        self.heard += text
        return text.upper()

    async def get_reward(self) -> float:
        return float(len(self.heard))


class Picture:
    """Shows a picture."""

    def reset(self, shade: int, **kwargs: Any) -> list[dict[str, Any]]:
        return [{"type": "image", "image": square(shade)}]


class Mirror(Picture):
    """Another, with a tool that nobody calls."""

    def turn(self) -> str:
        """Turn it.

        Returns:
            Where to.
        """
        return "left"


def turns(read: str) -> int:
    """Tool results so far."""
    return read.count("<tool_response>")


def row_of(read: str) -> int:
    """The row that an earlier turn of this rollout wrote into its first call."""
    found = re.search(r'"(?:a|step|shade)": (\d+)', read.split("<|im_start|>assistant")[1])
    assert found
    return int(found.group(1))


def reply_with_tools(read: str, row: int) -> str:
    """Row 3 calls nothing, 7 what does not exist, odd ones twice."""
    if turns(read) == 0:
        name = {3: None, 7: "nothing"}.get(row % 8, ["add", "multiply"][row % 2])
        return "none" if name is None else call(name, a=row % 8, b=2)
    if turns(read) == 1 and row_of(read) % 2:
        return call("add", a=1, b=1) + call("multiply", a=2, b=2)
    return "done" + "!" * row_of(read)


def reply_to_counter(read: str, row: int) -> str:
    """Twice to twice the row, but row 2 does not count."""
    if turns(read) == 0:
        return "done" if row % 8 == 2 else call("up", step=row % 8)
    return call("up", step=row_of(read)) if turns(read) == 1 else "done"


def reply_to_either(read: str, row: int) -> str:
    if turns(read):
        return "done"
    return call("up", step=row % 8) if "Count!" in read else call("shout", text="x" * row)


def reply_about_pictures(read: str, row: int) -> str:
    return f"{'x' * (row % 8)}"


def reply_with_looks(read: str, row: int) -> str:
    """Every third row takes a picture, some of them two, of their own colours."""
    if turns(read) == 0 and row % 3 == 1:
        return call("look", shade=10 + row)
    if turns(read) == 1 and row_of(read) % 2:
        return call("look", shade=50 + row)
    return "done" + "?" * (row % 5)


def reply_with_rare_looks(read: str, row: int) -> str:
    """Rows 1, 2 and 16 take a picture; then the first two say most, and row 16 neither much nor
    little, so that of groups of 7 it is not kept."""
    if turns(read):
        return "done" + "?" * (3 if row_of(read) == 16 else 6)
    return call("look", shade=row) if row in (1, 2, 16) else "done" + "?" * (row % 7)


def last_length(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float(len(c[-1]["content"])) for c in completions]


def length(completions: list[Any], **kwargs: Any) -> list[float]:
    """The characters of all messages."""
    lengths = []
    for messages in completions:
        lengths.append(float(sum(len(message["content"]) for message in messages)))
    return lengths


def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """Ids that depend on the place, with tokens of the surroundings among them."""
    tokenizer = trainer._tokenizer
    ids = trainer.processing_class.apply_chat_template(
        prompts, add_generation_prompt=True, tokenize=True, return_dict=True
    )

    completions, logprobs, masks = [], [], []
    for place in range(len(prompts)):
        completion = [10 + place, 11, *[20] * (place % 5), tokenizer.eos_token_id]
        completions.append(completion)
        logprobs.append([-float(token) for token in range(len(completion))])
        masks.append([1, 0] + [1] * (len(completion) - 2))

    return {
        "prompt_ids": ids["input_ids"],
        "completion_ids": completions,
        "logprobs": logprobs,
        "env_mask": masks,
        "place": list(range(len(prompts))),
        "constant": "same",
    }


def places(place: list[int], constant: list[str], **kwargs: Any) -> list[float]:
    assert set(constant) == {"same"}
    return [float((7 * p) % 5) for p in place]


SCENARIOS: dict[str, dict[str, Any]] = {
    "tools": {
        "reply": reply_with_tools,
        "tools": [add, multiply],
        "reward_funcs": [length],
        "train_dataset": questions(),
    },
    "environment": {"reply": reply_to_counter, "environment_factory": Counter},
    "environments": {
        "reply": reply_to_either,
        "environment_factory": {"counter": Counter, "echo": Echo},
        "train_dataset": questions(environment=["counter", "echo"] * 4),
        "tools": [add],
    },
    "environments with images": {
        "reply": reply_about_pictures,
        "model": vision_model,
        "reward_funcs": [length],
        "environment_factory": {"picture": Picture, "mirror": Mirror},
        "train_dataset": questions(environment=["picture", "mirror"] * 4, shade=list(range(8))),
    },
    "rollout_func": {
        "reply": reply_about_pictures,
        "rollout_func": rollout,
        "reward_funcs": [places],
        "train_dataset": questions(image=[square(20 * i) for i in range(8)]),
        "model": vision_model,
    },
    "images": {
        "reply": reply_about_pictures,
        "model": vision_model,
        "reward_funcs": [length],
        "train_dataset": questions(image=[square(20 * i) for i in range(8)]),
    },
    "mixed images": {
        "reply": reply_with_looks,
        "model": vision_model,
        "reward_funcs": [length],
        "tools": [look],
        "train_dataset": questions(images=[[square(i)] * (i % 3) for i in range(8)]),
    },
    "tool images": {
        "reply": reply_with_looks,
        "model": vision_model,
        "reward_funcs": [length],
        "tools": [look],
        "train_dataset": questions(),
    },
    "rare tool images": {
        "reply": reply_with_rare_looks,
        "model": vision_model,
        "reward_funcs": [last_length],
        "tools": [look],
        "train_dataset": questions(),
    },
}
