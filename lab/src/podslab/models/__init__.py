"""Models that come with the laboratory, and loading any other.

`tiny` is built here in a minute; `smollm2` is a small pretrained one from a package. `resolve`
turns their names into folders.
"""

from podslab.models.load import load_model, resolve

__all__ = ["load_model", "resolve"]
