"""The rollouts of a generation as Trackio's traces: messages, and what is known of each.

A trace has the keys that TRL's asynchronous trainer and verl write, and so `pods inspect` opens a
project of Trackio with them. `kept` and `rule` are podsrl's own.
"""

import math
from collections.abc import Mapping
from typing import Any

from podsrl.rollout_log.turns import content_as_text
from podsrl.trl.reporting import Logs

#: The key in Trackio under which TRL's asynchronous trainer logs its own.
_KEY = "rollouts"


def log_traces(logs: Logs, step: int) -> None:
    """Log rollouts to Trackio's current run.

    Args:
        logs: What `with_dropped` made of a generation.
        step: The optimiser step.
    """
    import trackio

    traces = [
        trackio.Trace(
            messages=[
                *_messages(prompt, "user"),
                *_messages(completion, "assistant"),
            ],
            metadata=_metadata(logs, place),
        )
        for place, (prompt, completion) in enumerate(
            zip(logs["prompt"], logs["completion"], strict=True)
        )
    ]
    trackio.log({_KEY: traces}, step=step)


def _messages(conversation: Any, role: str) -> list[dict[str, Any]]:
    """A text, or a conversation whose images are named by their sizes, as OpenAI's messages."""
    if isinstance(conversation, str):
        return [{"role": role, "content": conversation}]
    messages = []
    for message in conversation:
        plain = {"role": message["role"], "content": content_as_text(message.get("content"))}
        for name in ("name", "tool_calls"):
            if message.get(name):
                plain[name] = message[name]
        messages.append(plain)
    return messages


def _metadata(logs: Logs, place: int) -> Mapping[str, Any]:
    values = {
        "group_id": logs["groups"][place],
        "reward": logs["reward"][place],
        "advantage": logs["advantages"][place],
        "kept": logs["extra"]["kept"][place],
        "rule": logs["extra"]["rule"][place],
        **{f"rewards/{name}": of_rows[place] for name, of_rows in logs["rewards"].items()},
    }
    return {name: _known(value) for name, value in values.items()}


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
