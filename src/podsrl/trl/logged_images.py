"""The images of a rollout's conversation, small enough for the rollout log."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

#: Pixels of the longer side of a logged image at most.
_PIXELS = 384


class LoggedImages:
    """Makes images small, each one once: all rollouts of a prompt have the same.

    Args:
        limit: The images of a rollout that are logged, the first ones.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._made: dict[int, tuple[Any, str | None]] = {}

    def of(self, images: Sequence[Any] | None) -> str | None:
        """Images as a JSON list of data addresses; None without any.

        An image is one of PIL's, or what `datasets` stores of one. Addresses of other machines are
        left out, as a log must not ask for them.
        """
        addresses = [self._address(image) for image in (images or ())[: self._limit]]
        found = [address for address in addresses if address is not None]
        return json.dumps(found) if found else None

    def _address(self, image: Any) -> str | None:
        if id(image) not in self._made:
            self._made[id(image)] = (image, _small(image))  # it is held, or its id is used again
        return self._made[id(image)][1]


def _small(image: Any) -> str | None:
    from PIL import Image

    if isinstance(image, Mapping) and image.get("bytes"):
        image = Image.open(io.BytesIO(image["bytes"]))
    if not isinstance(image, Image.Image):
        return None

    small = image.convert("RGB")
    small.thumbnail((_PIXELS, _PIXELS))
    data = io.BytesIO()
    small.save(data, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"
