"""The app inside a notebook, served by a thread of the notebook's own process."""

import atexit
import html
from collections.abc import Sequence
from pathlib import Path

from podsrl.errors import fields_named
from podsrl.inspector.app import InspectorServer
from podsrl.inspector.index import Index
from podsrl.inspector.keeping import Keep
from podsrl.inspector.sources import Options, find_sources


class Inspection:
    """An open app; a notebook shows it where this is the value of a cell.

    Args:
        paths: What to open, as `pods inspect` takes it.
        keep: Rollouts of each prompt that `max_variance` keeps where nothing says what was kept, 2
            or more; None: a quarter, and at least 2.
        height: Pixels of the frame.

    Raises:
        InvalidInputError: A path holds nothing that can be opened, or `keep` is less than 2.
    """

    def __init__(self, paths: Sequence[Path], keep: int | None, height: int) -> None:
        self.paths = list(paths)
        self.height = height
        with fields_named({"num_kept": "keep"}):
            options = Options(keep=Keep(keep))

        index = Index(lambda: find_sources(self.paths, options))
        self._server = InspectorServer(index, in_frame=True)
        self._server.start()
        atexit.register(self.close)

    @property
    def address(self) -> str:
        """Where a browser on this machine finds it."""
        return self._server.address

    def close(self) -> None:
        """End the server; the frame stays empty afterwards."""
        atexit.unregister(self.close)
        self._server.close()

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.paths))
        return f"the rollouts of {names}: {self.address}"

    def _repr_html_(self) -> str:
        address = html.escape(self.address)
        return (
            f'<iframe src="{address}" width="100%" height="{self.height}" frameborder="0"></iframe>'
            f'<p><a href="{address}" target="_blank">open in a tab of its own</a></p>'
        )
