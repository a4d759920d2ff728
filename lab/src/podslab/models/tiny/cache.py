"""The embedded model on disk, built once for each settings and version of the code."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock
from transformers.utils import logging

from podslab.tasks import arithmetic
from podslab.models.tiny.build import Progress, build
from podslab.models.tiny.settings import TinySettings

_HERE = Path(__file__).parent
_SOURCES = (arithmetic.__file__, _HERE / "build.py", _HERE / "tokenizer.py")
_MANIFEST = "podsrl.json"


def get_model(
    settings: TinySettings | None = None,
    cache_dir: str | Path | None = None,
    progress: Progress = iter,
) -> Path:
    """The folder of the embedded model, built now if it is not in the cache.

    `AutoModelForCausalLM.from_pretrained` and `AutoTokenizer.from_pretrained` load the folder.

    Args:
        settings: what to build; the default is the model of `pods demo`.
        cache_dir: where models are kept; by default $PODSRL_CACHE, else podsrl in $XDG_CACHE_HOME
            or ~/.cache.
        progress: wraps the range of warm-start steps, as `tqdm` does; not called if nothing is
            built.
    """
    settings = settings or TinySettings()
    root = Path(cache_dir).expanduser() if cache_dir is not None else default_cache_dir()
    root.mkdir(parents=True, exist_ok=True)
    folder = root / f"tiny-{_key(settings)}"
    with FileLock(f"{folder}.lock"):  # a second process waits, rather than build the same again
        if not _is_whole(folder):
            _build_into(folder, settings, progress)
    return folder


def default_cache_dir() -> Path:
    """$PODSRL_CACHE, else podsrl in $XDG_CACHE_HOME or ~/.cache."""
    if override := os.environ.get("PODSRL_CACHE"):
        return Path(override).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "podsrl"


def _key(settings: TinySettings) -> str:
    digest = hashlib.sha256(json.dumps(asdict(settings), sort_keys=True).encode())
    for source in _SOURCES:
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()[:16]


def _build_into(folder: Path, settings: TinySettings, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as temporary:
        built = Path(temporary) / folder.name
        model, tokenizer = build(settings, progress)
        with _no_progress_bars():
            model.save_pretrained(built)
            tokenizer.save_pretrained(built)
        manifest = {"settings": asdict(settings), "sha256": _hashes(built)}
        (built / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        built.rename(folder)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """transformers 5 shows one for every file that it writes."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _is_whole(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return False
    return bool(manifest.get("sha256") == _hashes(folder))


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name != _MANIFEST)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
