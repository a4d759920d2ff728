"""Images of dataset rows, as TRL reads them, and what it can't train on."""

from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.errors import UnsupportedError


def dataset_images(rows: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The images of dataset rows, a list per row or None, as TRL reads its two columns."""
    if "images" in rows[0]:
        images = [row.get("images") for row in rows]
        return None if all(of_row == [] for of_row in images) else images
    if "image" in rows[0]:
        return [None if row.get("image") is None else [row["image"]] for row in rows]
    return None


def refuse_mixed_images(images: Any, in_dataset: bool) -> Any:
    """The kept rollouts' images as TRL would have them of these rows alone, a list per rollout.

    Args:
        images: Those of the rollouts that this process keeps, a list per rollout or None.
        in_dataset: Whether the dataset rows that TRL was given had images. TRL would put these in
            the place of none.

    Raises:
        UnsupportedError: No kept rollout has an image, and others of the dataset rows have.
    """
    if images is None or any(images):
        return images
    if in_dataset:
        raise UnsupportedError(
            "no rollout that this process keeps has an image, but others that it generated have;"
            " TRL can't train on such rows. Train on prompts with images and without in runs of"
            " their own, or on one process with one prompt per batch"
        )
    return None
