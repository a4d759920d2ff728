"""`python -m benchmarks.published FOLDER`: a report of the authors' result files.

FOLDER is `results/` of their repository, github.com/YixuanEvenXu/pods. With `--keep
results/published.json` the curves of every run are kept there, which the pages are computed from.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks.published.kept_curves import keep
from benchmarks.published.result_files import read_published
from podslab.report.write_report import write_report
from podsrl.errors import PodsError


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published", description=__doc__)
    parser.add_argument("folder", help="results/ of the authors' repository")
    parser.add_argument("--out", default="report", help="where to write (default: %(default)s)")
    parser.add_argument("--keep", help="also keep the curves of every run in this file")
    args = parser.parse_args(argv)

    try:
        comparisons = read_published(args.folder)
        if args.keep:
            keep(args.folder, args.keep)
        report = write_report(comparisons, args.out, "PODS: the authors' published results")
    except PodsError as error:
        print(error, file=sys.stderr)
        return 2

    print(report.text)
    print(f"wrote {report.page} (open it in a browser), figures and summary beside it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
