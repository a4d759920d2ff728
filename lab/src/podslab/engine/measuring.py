"""The one callback that measures a run beside its training, and ends it on time."""

from collections.abc import Callable, Iterable
from typing import Any

from transformers import TrainerCallback

from podslab.engine.budget import Budget, Schedule, Spent


class Measuring(TrainerCallback):
    """Measures by a schedule, outside training time, and stops training once the budget is spent.

    Args:
        spent: Gives what the run has spent so far, the same on every process.
        budget: What it may spend. TRL's number of steps is a limit, too.
        schedule: When it is measured.
        measure: Measures the model after so many steps, and records it.
        measured_steps: Gives the steps after which an earlier process has measured the run already.
    """

    def __init__(
        self,
        spent: Callable[[], Spent],
        budget: Budget,
        schedule: Schedule,
        measure: Callable[[int], None],
        measured_steps: Callable[[], Iterable[int]] = lambda: (),
    ) -> None:
        self.spent = spent
        self.budget = budget
        self.schedule = schedule
        self.measure = measure
        self.measured_steps = measured_steps
        #: Whether the budget has ended the run.
        self.is_done = False
        self._measured: set[int] = set()
        self._last_point = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the model before the first step."""
        self.budget = self.budget.with_steps(state.max_steps)
        self._measured = set(self.measured_steps())
        self._last_point = self.budget.points(self.spent(), self.schedule.points)
        if state.global_step == 0 and self.schedule.at_start:
            self._measure_once(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure when a point of the budget or a step is due; stop when the budget is spent."""
        spent = self.spent()
        point = self.budget.points(spent, self.schedule.points)
        passed_point = point > self._last_point
        self._last_point = point
        self.is_done = self.budget.is_spent(spent)

        # Before the step's checkpoint is saved, so that none lacks its measurement. TRL's own
        # evaluation, which may be what measures, takes the order to log the step back.
        every = self.schedule.every_steps
        step_is_due = every is not None and state.global_step % every == 0
        if self.is_done or passed_point or step_is_due:
            step_is_logged = control.should_log
            self._measure_once(state.global_step)
            control.should_log = step_is_logged

        if passed_point and self.schedule.saves:
            control.should_save = True
        if self.is_done:
            control.should_training_stop = True
            control.should_save = control.should_save or args.save_strategy != "no"

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the trained model."""
        self._measure_once(state.global_step)

    def _measure_once(self, step: int) -> None:
        """Measure the model after a step, unless that was done before."""
        if step not in self._measured:
            self.measure(step)
            self._measured.add(step)
