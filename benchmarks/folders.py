"""Where the repository is, where results are put, and how packed ones are opened."""

import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def unpack(packed: Path, folder: Path) -> None:
    """Unpack an archive of ours into a folder."""
    with tarfile.open(packed) as archive:
        # Python 3.11.3 and older, such as Debian 12's, have no filters.
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)
