"""The figure of the studies: `python -m benchmarks.studies`."""

from benchmarks.folders import ROOT
from benchmarks.studies.figure import draw
from podslab.report.drawing import render
from podsrl.rollout_log.files import write_whole

FIGURE = ROOT / "docs" / "studies.svg"


def main() -> None:
    """Write it."""
    write_whole(FIGURE, render(draw(), "svg"))
    print(f"wrote {FIGURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
