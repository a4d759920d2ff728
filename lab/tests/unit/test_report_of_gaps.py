"""Reports of runs that logged less than `PODSTrainer` does."""

import re

from podslab.report.figures import draw
from podslab.report.load_runs import Choices, load_comparison
from podslab.report.summary import summarise
from podslab.report.write_report import write_report
from support.synthetic_runs import write_run

ACCURACIES = (0.1, 0.4, 0.6, 0.8)


def report(folder):
    write_report([load_comparison([folder / "runs"], Choices())], folder / "report", "t")


def figures_of(folder, **choices):
    comparison = load_comparison([folder], Choices(**choices))
    return draw(comparison, summarise(comparison))


def test_a_run_with_evaluations_and_without_rewards_has_the_other_figures(tmp_path):
    run = write_run(tmp_path / "runs" / "a", "grpo", 0, ACCURACIES)
    lines = (run.path / "metrics.jsonl").read_text()
    unscored = re.sub(r'("reward"|"pods/kept_reward"): [^,]*', r"\1: null", lines)
    (run.path / "metrics.jsonl").write_text(unscored)
    assert set(figures_of(tmp_path)) == {"accuracy", "seconds_per_step", "length"}
    write_run(tmp_path / "runs" / "b", "pods", 0, ACCURACIES)
    report(tmp_path)
    (panel,) = figures_of(tmp_path)["kept_and_dropped"].axes
    assert panel.get_title(loc="left") == "pods"
