"""Models on disk, each made once."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock
from transformers.utils import logging

_MANIFEST = "podsrl.json"


def cached(
    name: str,
    make: Callable[[Path], None],
    origin: Mapping[str, Any],
    cache_dir: str | Path | None = None,
) -> Path:
    """The folder `name` in the cache; if it is not there as a whole, `make` writes it now.

    A second process waits, rather than make the same again. An interrupted one leaves nothing.

    Args:
        name: What the folder is called; another name for everything that changes the content.
        make: It writes the files of the model into the folder that it is given.
        origin: What the model was made from; it is kept beside the model in podsrl.json.
        cache_dir: Where models are kept; by default `default_cache_dir()`.
    """
    root = default_cache_dir() if cache_dir is None else Path(cache_dir).expanduser()
    root.mkdir(parents=True, exist_ok=True)
    folder = root / name

    with FileLock(f"{folder}.lock"):
        if _is_whole(folder):
            return folder
        with tempfile.TemporaryDirectory(dir=root, prefix=f"{name}.") as temporary:
            built = Path(temporary) / name
            built.mkdir()
            with _without_progress_bars():
                make(built)
            manifest = {**origin, "bytes": _sizes(built)}
            (built / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")

            # What is there is not whole.
            shutil.rmtree(folder, ignore_errors=True)
            built.rename(folder)
    return folder


def default_cache_dir() -> Path:
    """$PODSRL_CACHE, else podsrl in $XDG_CACHE_HOME or ~/.cache."""
    override = os.environ.get("PODSRL_CACHE")
    if override:
        return Path(override).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "podsrl"


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Inside, transformers shows none; version 5 has one for every file."""
    were_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_shown:
            logging.enable_progress_bar()


def _is_whole(folder: Path) -> bool:
    """Whether a folder has the files that its manifest lists, in their sizes."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return False
    return bool(manifest.get("bytes") == _sizes(folder))


def _sizes(folder: Path) -> dict[str, int]:
    files = [path for path in sorted(folder.iterdir()) if path.name != _MANIFEST]
    return {path.name: path.stat().st_size for path in files}
