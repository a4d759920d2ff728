"""Progress bars of the commands."""

from collections.abc import Iterable
from typing import Any

from accelerate import PartialState
from tqdm.auto import tqdm
from transformers import TrainerCallback
from transformers.utils import logging as transformers_logging

transformers_logging.disable_progress_bar()  # loading and saving shards, between our bars


def bar(what: str) -> Any:
    """A wrapper for an iterable that shows a progress bar while it is consumed."""

    def wrap(items: Iterable[Any]) -> Iterable[Any]:
        hidden = not PartialState().is_main_process
        return tqdm(items, desc=what, leave=False, dynamic_ncols=True, disable=hidden)

    return wrap


class TrainingBar(TrainerCallback):
    """One line while training: steps, reward of all and of the kept rollouts, seconds by phase."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> "TrainingBar":
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the bar on the screen, and what is printed next on a line of its own."""
        if self._bar is not None:
            self._bar.close()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Show the bar, from where a resumed run stands."""
        if state.is_world_process_zero:
            self._bar = tqdm(
                total=state.max_steps,
                initial=state.global_step,
                desc="training",
                unit="step",
                dynamic_ncols=True,
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count a step."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Show the step's rewards."""
        if self._bar is not None and logs and "reward" in logs:
            shown = {"reward": logs["reward"], "kept": logs.get("pods/kept_reward")}
            self._bar.set_postfix({k: f"{v:.3f}" for k, v in shown.items() if v is not None})
