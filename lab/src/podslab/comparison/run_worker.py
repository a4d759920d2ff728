"""The process of one run of a comparison: python -m podslab.comparison.run_worker FOLDER RUN.

A crash or a leak hurts no other run, and the peak of memory is the run's own. The process ends when
the one that started it does, which it notices by its standard input.
"""

import logging
import sys
from pathlib import Path

from podsgrading.pool import GradingProcessError
from podsgrading.unscorable import UnscorableError
from podslab.engine.run_end import at_work_on, end_with_parent, error_file, exit_status
from podsrl.errors import RewardError

#: Rewards and grading that fail may do so in one run alone.
_OF_ONE_RUN = (RewardError, UnscorableError, GradingProcessError)


def work(comparison_folder: Path, path: str) -> None:
    """Train a run to its end, from its last checkpoint if it has one.

    Args:
        comparison_folder: The comparison's folder.
        path: The run's folder within it, such as pods/seed-0.

    Raises:
        PodsError: What `podslab.training.run.train` raises, or another process is at work on this
            run.
    """
    from podslab.comparison.comparison import read_comparison
    from podslab.training import run as training
    from podsrl.trl import checkpoint

    comparison = read_comparison(comparison_folder)
    key = comparison.run_at(path)
    spec = comparison.run_spec(key)
    folder = comparison.run_folder(key)

    with at_work_on(folder):
        if folder.finished() is not None:
            return  # by another process, since this one was started

        spec.run.resume = checkpoint.last_complete(folder.path) is not None
        training.train(spec, training.load_data(spec))


def main() -> int:
    """Do the run of the command line; its exit status is that of `exit_status`."""
    end_with_parent()
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("podsrl").setLevel(logging.INFO)
    folder, path = sys.argv[1:]
    errors = error_file(Path(folder, path))
    return exit_status(lambda: work(Path(folder), path), errors, _OF_ONE_RUN)


if __name__ == "__main__":
    sys.exit(main())
