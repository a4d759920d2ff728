"""The figure of results/worth.md, and the authors' worths that `pods recommend` ships with.

python -m benchmarks.worth    # then python -m benchmarks.pages, which writes the tables
"""

from pathlib import Path

from benchmarks.folders import RESULTS, ROOT
from benchmarks.worth.figure import draw
from benchmarks.worth.shipped import shipped
from podslab.report.drawing import render
from podsrl.rollout_log.files import write_json, write_whole

SHIPPED = ROOT / "lab" / "src" / "podslab" / "recommend" / "authors_worth.json"


def main() -> None:
    """Write both files."""
    write_json(SHIPPED, shipped())
    write_whole(RESULTS / "worth.png", render(draw(), "png"))
    for file in (SHIPPED, RESULTS / "worth.png"):
        print(f"wrote {Path(file).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
