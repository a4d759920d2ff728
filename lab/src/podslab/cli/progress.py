"""Progress bars of the commands."""

from functools import partial
from typing import Any

from accelerate import PartialState
from tqdm.auto import tqdm
from transformers.trainer_callback import ProgressCallback
from transformers.utils import logging as transformers_logging

transformers_logging.disable_progress_bar()  # loading and saving shards, between our bars


def bar(what: str) -> Any:
    """A wrapper for an iterable that shows a progress bar while it is consumed."""
    hidden = not PartialState().is_main_process
    return partial(tqdm, desc=what, leave=False, dynamic_ncols=True, disable=hidden)


class TrainingBar(ProgressCallback):
    """One line while training: steps, and the reward of all and of the kept rollouts."""

    def __enter__(self) -> "TrainingBar":
        return self

    def __exit__(self, *error: object) -> None:
        """Leave what is printed next a line of its own."""
        if self.training_bar is not None:
            self.training_bar.close()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Show the step's rewards in the line, where transformers' writes a new one."""
        if self.training_bar is not None and logs and "reward" in logs:
            shown = {"reward": logs["reward"], "kept": logs.get("pods/kept_reward")}
            known = {k: f"{v:.3f}" for k, v in shown.items() if v is not None}
            self.training_bar.set_postfix(known)
