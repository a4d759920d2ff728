"""Models that come with the laboratory, and loading any other.

`tiny` is built here in a minute, `smollm2` is a small pretrained one from a package; `cache` keeps
both. `resolve` turns their names into folders, `load` loads a model to be measured.
"""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podslab.models.tiny import TinySettings


def resolve(
    name: str,
    settings: "TinySettings | None" = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> str:
    """The folder of a model of the laboratory, made now if need be; any other name as it is.

    Args:
        name: "tiny", "smollm2", a folder, or a name on the hub.
        settings: What "tiny" is built from; the default is the model of the config `arithmetic`.
        progress: It is shown while "tiny" is built, as `tqdm` does.

    Raises:
        MissingDependencyError: The packages that "smollm2" needs are not installed.
    """
    if name == "tiny":
        from podslab.models import tiny

        return str(tiny.get_model(settings, progress=progress))
    if name == "smollm2":
        from podslab.models import smollm2

        return str(smollm2.get_model())
    return os.path.expanduser(name)  # what check_model looked at
