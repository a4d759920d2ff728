"""A completion as the rollout log keeps it: the model's last text, and the turns that led to it."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

#: Characters of a tool's result that are kept; a page of a browser or a log may have megabytes.
RESULT_LENGTH = 2_000
#: The types of parts with reasoning, whose text has the name of the type: Inspect's, Anthropic's.
_REASONING = ("reasoning", "thinking")


def text_of(completion: Any) -> str:
    """A completion is text, or a conversation: then the model's last message; never a tool's."""
    if not isinstance(completion, str):
        own = [message for message in completion if message.get("role") == "assistant"]
        completion = content_as_text(own[-1].get("content")) if own else ""
    return completion.encode(errors="replace").decode()  # a model may halve a surrogate pair


def turns_of(completion: Any) -> str | None:
    """A conversation as JSON, a list of turns without what is empty; None where one text is all.

    `{"role": "assistant", "thinking", "text", "calls": [{"name", "arguments"}]}`, and
    `{"role": "tool", "name", "text", "length"}` with the length in characters of what was cut.
    """
    if isinstance(completion, str):
        return None
    turns = [_turn(message) for message in completion]
    if len(turns) == 1 and set(turns[0]) <= {"role", "text"}:
        return None
    return text_of(json.dumps(turns, ensure_ascii=False, separators=(",", ":")))


def _turn(message: Mapping[str, Any]) -> dict[str, Any]:
    text = content_as_text(message.get("content"))
    long = message.get("role") == "tool" and len(text) > RESULT_LENGTH
    turn = {
        "role": str(message.get("role")),
        "name": message.get("name"),
        "thinking": message.get("reasoning_content") or _reasoning(message.get("content")),
        "text": text[:RESULT_LENGTH] if long else text,
        "length": len(text) if long else None,
        "calls": [_call(call) for call in message.get("tool_calls") or ()],
    }
    return {key: value for key, value in turn.items() if value}


def _call(call: Any) -> dict[str, str]:
    """The name and the arguments of the function that is called.

    A call has them in its "function". The parser of some templates leaves that out, Inspect has the
    name alone there, and verifiers before 0.4 writes the whole call as a JSON text.
    """
    if isinstance(call, str):
        with suppress(ValueError):  # no JSON: it is shown as the text that it is
            call = json.loads(call)
    if not isinstance(call, Mapping):
        call = {"name": call}

    function = call.get("function", call)
    if not isinstance(function, Mapping):
        function = {**call, "name": function}
    arguments = json.dumps(function.get("arguments"), ensure_ascii=False, default=str)
    return {"name": str(function.get("name")), "arguments": arguments}


def content_as_text(content: Any) -> str:
    """The content of a message, a text or a list of parts; an image is named by its size.

    Parts with the model's reasoning are no part of what it says.
    """
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content if _kind(part) not in _REASONING)
    return "" if content is None else str(content)


def _reasoning(content: Any) -> str:
    """The reasoning in the parts of a message; "" where there is none."""
    if not isinstance(content, list):
        return ""
    parts = [part for part in content if _kind(part) in _REASONING]
    return "\n".join(str(part.get(_kind(part)) or "") for part in parts)


def _kind(part: Any) -> Any:
    """The type of a part that says it."""
    return part.get("type") if isinstance(part, Mapping) else None


def _part(part: Any) -> str:
    kind = _kind(part)
    if kind is None or kind == "text":
        return str(part if kind is None else part.get("text", ""))
    size = getattr(part.get(kind), "size", None)
    return f"[{kind} {size[0]} x {size[1]}]" if isinstance(size, tuple) else f"[{kind}]"
