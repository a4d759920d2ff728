"""The process that runs the user's script once, as one arm.

    python -m podslab.own_script.script_process JOB.json

The script is run unchanged, as `python script.py` would. The names that it imports from TRL and
podsrl are replaced before: its config remembers what it was given, and its trainer is
`ComparedTrainer`. It ends when the first `train()` has spent the budget.
"""

import logging
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from podslab.engine.run_end import at_work_on, end_with_parent, error_file, exit_status
from podslab.own_script.job import ScriptJob
from podsrl.errors import InvalidInputError, RewardError


def run_script(job: ScriptJob, began: float) -> None:
    """Run the script until its training has spent the budget.

    Raises:
        PodsError: The script never trained, or it can't be compared; the message says why.
        Exception: What the script raises.
    """
    from podslab.own_script.compared_trainer import ComparedTrainer, ScriptEnded

    ComparedTrainer.job = job
    ComparedTrainer.began = began
    _stand_in(ComparedTrainer)

    # As Python does for a script: its folder is where its own modules are found.
    script = Path(job.script)
    sys.argv = [str(script), *job.arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except ScriptEnded:
        return
    except EOFError as error:
        raise InvalidInputError(
            f"{script.name} asks for input, which nobody gives in a comparison: make what it asks"
            f" for an argument, and give it within quotes: pods compare '{script.name} --its-own 3'"
        ) from error
    except SystemExit as error:
        if ComparedTrainer.is_training:
            raise RuntimeError(
                f"{script.name} ended by itself while it trained ({error.code}): a reward function"
                " or a callback calls sys.exit"
            ) from error
        if error.code not in (0, None):
            raise InvalidInputError(
                f"{script.name} ended by itself before training ({error.code}); give it its own"
                f" arguments within quotes: pods compare '{script.name} --its-own 3'"
            ) from error
    raise InvalidInputError(
        f"{script.name} ended without training: pods compare runs a script that constructs"
        " trl.GRPOTrainer or podsrl.trl.PODSTrainer and calls its train()"
    )


def _stand_in(trainer: type) -> None:
    """Put the compared trainer and the remembering configs where a script imports them from."""
    import trl
    import trl.trainer
    from trl.trainer import grpo_config, grpo_trainer

    import podsrl.trl
    from podslab.own_script.settings import RememberingGRPOConfig, RememberingPODSConfig

    modules: tuple[Any, ...] = (trl, trl.trainer, grpo_trainer)
    for module in modules:
        module.GRPOTrainer = trainer
    configs: tuple[Any, ...] = (trl, trl.trainer, grpo_config)
    for module in configs:
        module.GRPOConfig = RememberingGRPOConfig
    ours: Any = podsrl.trl
    ours.PODSTrainer = trainer
    ours.PODSConfig = RememberingPODSConfig


def main() -> int:
    """Do the job of the command line; its exit status is that of `exit_status`."""
    began = time.monotonic()
    end_with_parent()
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("podsrl").setLevel(logging.INFO)

    job = ScriptJob.read(Path(sys.argv[1]))

    def work() -> None:
        with at_work_on(job.run):
            run_script(job, began)

    # What rewards do may happen in this arm alone; the others go on.
    return exit_status(work, error_file(Path(job.folder)), (RewardError,))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # A script may leave threads and engines that would keep the process.
    os._exit(status)
