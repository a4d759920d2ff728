"""Make the models that come with the package anew, in about five minutes:

python -m podslab.training.shipped_models
"""

import shutil
import tempfile
from pathlib import Path

from tqdm import tqdm

from podslab.models.tiny import SHIPPED, folder_name, get_model
from podslab.models.tiny.settings import TinySettings
from podslab.training.config_file import read_config

#: The shipped comparisons whose model comes with the package.
COMPARISONS = ("demo",)


def main() -> None:
    """Replace what is there by the models of today's sources."""
    shutil.rmtree(SHIPPED, ignore_errors=True)
    for comparison in COMPARISONS:
        settings = settings_of(comparison)
        with tempfile.TemporaryDirectory() as folder:
            made = get_model(settings, cache_dir=Path(folder), progress=tqdm)
            shutil.copytree(made, SHIPPED / folder_name(settings))


def settings_of(comparison: str) -> TinySettings:
    """The settings of the embedded model in a shipped comparison."""
    return TinySettings(**read_config(comparison)["settings"]["tiny_options"])


if __name__ == "__main__":
    main()
