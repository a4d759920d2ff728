"""Where the real data of the tasks is: a sample in the repository, all of it where it is there."""

from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "data"
COMPLETE = Path(__file__).parents[3] / "shared" / "data"


def sample_and_complete(folder: str, adds: str) -> pytest.MarkDecorator:
    """Runs a test with `data` = the folder of the sample, and with that of the complete data.

    Args:
        folder: "gsm8k", say.
        adds: what the complete data shows that the sample does not; said where it is missing.
    """
    missing = f"the complete data is not in ../shared/data/{folder}; it would add: {adds}"
    complete = pytest.param(
        COMPLETE / folder,
        id="complete",
        marks=pytest.mark.skipif(not (COMPLETE / folder).is_dir(), reason=missing),
    )
    return pytest.mark.parametrize("data", [pytest.param(SAMPLE / folder, id="sample"), complete])
