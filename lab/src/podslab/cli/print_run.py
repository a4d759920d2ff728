"""What commands print of a run."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podslab.evaluation.sampling import Scores
    from podslab.training.run import FinishedRun


def accuracy_line(name: str, scores: "Scores") -> str:
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


def print_run(finished: "FinishedRun") -> None:
    """The run's accuracies before and after, and where everything is."""
    print(f"\n{finished.steps} steps, {finished.training_seconds:.0f} s of training time")
    if finished.scores:
        first, last = min(finished.scores), max(finished.scores)
        if first == 0 < last:
            print(accuracy_line("before", finished.scores[first]))
        print(accuracy_line("after", finished.scores[last]))
    folder = finished.run.path
    print(f"\nmetrics     {folder / 'metrics.jsonl'}")
    print(f"rollouts    {folder / 'rollouts'}/step_*.parquet")
    print(f"config      {folder / 'config.yaml'}")
    if finished.checkpoint:
        print(f"checkpoint  {finished.checkpoint}")
