"""The process of one run of a comparison: python -m podslab.comparison.run_worker FOLDER RUN.

A crash or a leak hurts no other run, and the peak of memory is the run's own. The process ends when
the one that started it does, which it notices by its standard input.
"""

import logging
import os
import sys
from pathlib import Path

from filelock import Timeout

from podsgrading.pool import GradingProcessError
from podsgrading.unscorable import UnscorableError
from podslab.engine.run_end import (
    FAILED,
    USER_ERROR,
    end_with_parent,
    error_file,
    lock_of,
    write_error,
)
from podsrl.errors import InvalidInputError, PodsError, RewardError


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

    lock = lock_of(folder)
    try:
        if os.environ.get("RANK", "0") == "0":
            lock.acquire()
        if folder.finished() is not None:
            return  # by another process, since this one was started

        spec.run.resume = checkpoint.last_complete(folder.path) is not None
        training.train(spec, training.load_data(spec))
    except Timeout as error:
        raise InvalidInputError(f"another process is at work on {folder.path}") from error
    finally:
        lock.release()


def main() -> int:
    """Exit status: 0, 1 for a crash or a failing reward function, 2 for any other user's error.

    The error is the last line that is printed. 130 if interrupted.
    """
    end_with_parent()
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("podsrl").setLevel(logging.INFO)
    folder, path = sys.argv[1:]
    try:
        work(Path(folder), path)
    except PodsError as error:
        print(error, file=sys.stderr, flush=True)
        # Rewards and grading that fail may do so in this run alone; the others go on.
        own = (RewardError, UnscorableError, GradingProcessError)
        status = FAILED if isinstance(error, own) else USER_ERROR
        write_error(error_file(Path(folder, path)), status, str(error))
        return status
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
