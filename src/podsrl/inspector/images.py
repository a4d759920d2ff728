"""Images inside messages, as data addresses that a page can show."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

#: Characters of a rollout's images that are kept; more are left out.
_LARGEST = 2_000_000
_ADDRESS = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")
#: How the bytes of each kind begin.
_KINDS = {
    b"\x89PNG": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF8": "gif",
    b"RIFF": "webp",
}


def images_of(*values: Any) -> str | None:
    """The images in messages, and in columns of images, as a JSON list; None without any."""
    found: list[str] = []
    room = _LARGEST
    for value in values:
        for address in _addresses(value):
            room -= len(address)
            if room >= 0:
                found.append(address)
    return json.dumps(found) if found else None


def _addresses(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.startswith("data:image/") and _ADDRESS.fullmatch(value):
            yield value
    elif isinstance(value, bytes):
        kind = next((kind for start, kind in _KINDS.items() if value.startswith(start)), None)
        if kind is not None:
            yield f"data:image/{kind};base64,{base64.b64encode(value).decode()}"
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _addresses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _addresses(inner)
