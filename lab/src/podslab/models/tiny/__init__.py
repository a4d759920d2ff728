"""The embedded model: small enough to build, warm-start and train on a CPU in minutes."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from podslab.models.cache import cached
from podslab.models.tiny.build import Progress, build
from podslab.models.tiny.settings import TinySettings
from podslab.tasks import sums

__all__ = ["TinySettings", "get_model"]

_HERE = Path(__file__).parent
#: What decides the weights beside the settings: a model of other sources is another model.
_SOURCES = (sums.__file__, _HERE / "build.py", _HERE / "tokenizer.py")
#: Models that come with the package, so that `pods demo` begins at once. Where a source has
#: changed, `python -m podslab.training.shipped_models` makes them anew.
SHIPPED = _HERE / "made"


def get_model(
    settings: TinySettings | None = None,
    cache_dir: str | Path | None = None,
    progress: Progress = iter,
) -> Path:
    """The folder of the embedded model, built now if it is neither shipped nor in the cache.

    `AutoModelForCausalLM.from_pretrained` and `AutoTokenizer.from_pretrained` load the folder.

    Args:
        settings: What to build; the default is the model of the config `arithmetic`.
        cache_dir: Where models are kept; by default $PODSRL_CACHE, else podsrl in $XDG_CACHE_HOME
            or ~/.cache.
        progress: It wraps the range of warm-start steps, as `tqdm` does; not called if nothing is
            built.
    """
    chosen = settings or TinySettings()

    def make(folder: Path) -> None:
        for part in build(chosen, progress):
            part.save_pretrained(folder)

    name = folder_name(chosen)
    if (SHIPPED / name).is_dir() and cache_dir is None:
        return SHIPPED / name
    return cached(name, make, {"settings": asdict(chosen)}, cache_dir)


def folder_name(settings: TinySettings) -> str:
    """The name of a model's folder: another one for other settings, or other sources."""
    digest = hashlib.sha256(json.dumps(asdict(settings), sort_keys=True).encode())
    for source in _SOURCES:
        digest.update(Path(source).read_bytes())
    return f"tiny-{digest.hexdigest()[:16]}"
