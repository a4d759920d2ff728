"""One run of a comparison in a process of its own.

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
from podslab.comparison.exit_status import FAILED, USER_ERROR, end_with_parent
from podsrl.errors import InvalidInputError, PodsError, RewardError


def work(comparison_folder: Path, arm: str, seed: int) -> None:
    """Train a run to its end, from its last checkpoint if it has one.

    Raises:
        PodsError: what `podslab.training.run.train` raises, or another process is at work on
            this run.
    """
    from podslab.comparison.comparison import RunOf, lock_of, read_comparison
    from podslab.training import run as training
    from podsrl.trl import checkpoint

    comparison = read_comparison(comparison_folder)
    run = RunOf(arm, seed)
    spec = comparison.run_spec(run)
    folder = comparison.run_folder(run)

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
    folder, arm, seed = sys.argv[1:]
    try:
        work(Path(folder), arm, int(seed))
    except PodsError as error:
        print(error, file=sys.stderr, flush=True)
        # rewards and grading that fail may do so in this run alone; the others go on
        own = (RewardError, UnscorableError, GradingProcessError)
        return FAILED if isinstance(error, own) else USER_ERROR
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
