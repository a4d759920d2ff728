"""Where the repository is, and where results are put."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
