"""The output of commands about a run: a bar while it trains, its numbers at the end."""

from functools import partial
from typing import Any

from accelerate import PartialState
from tqdm.auto import tqdm
from transformers.trainer_callback import ProgressCallback
from transformers.utils import logging as transformers_logging

from podslab.evaluation.sampling import Scores
from podslab.training.run import FinishedRun

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


def accuracy_line(name: str, scores: Scores) -> str:
    """Mean accuracies over repeats, the answer's with its standard error."""
    answer, form, both = (
        100 * sum(values) / len(values)
        for values in (scores.answer_accuracy, scores.format_accuracy, scores.both_accuracy)
    )
    length = sum(scores.mean_length) / len(scores.mean_length)
    line = (
        f"{name:<8} answer {answer:5.1f} % +- {100 * scores.standard_error:.1f}"
        f"   format {form:5.1f} %   both {both:5.1f} %   length {length:.1f} tokens"
    )
    return line + (f"   ({scores.unscorable} unscorable)" if scores.unscorable else "")


def print_run(finished: FinishedRun) -> None:
    """The run's accuracies before and after, and where everything is."""
    print(f"\n{finished.steps} steps, {finished.training_seconds:.0f} s of training time")

    if finished.scores:
        first, last = min(finished.scores), max(finished.scores)
        if first == 0 < last:
            print(accuracy_line("before", finished.scores[first]))
        print(accuracy_line("after", finished.scores[last]))

    folder = finished.run.path
    print(f"\nmetrics     {folder / 'metrics.jsonl'}")
    print(f"rollouts    {folder / 'rollouts'}/step_*/")
    print(f"config      {folder / 'config.yaml'}")
    if finished.checkpoint:
        print(f"checkpoint  {finished.checkpoint}")
