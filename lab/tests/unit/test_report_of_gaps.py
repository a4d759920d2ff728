"""Reports of runs that logged less than `PODSTrainer` does."""

import re
import shutil

from podslab.evaluation.records import append_evaluation
from podslab.report.curves import Clock
from podslab.report.figures import describe, draw
from podslab.report.load_runs import Choices, load_comparison
from podslab.report.summary import summarise
from podslab.report.write_report import write_report
from podsrl.rollout_log.run_folder import RunFolder
from support.synthetic_runs import evaluation, write_run, write_training

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
    assert set(figures_of(tmp_path)) == {"accuracy", "measures", "seconds_per_step", "length"}
    write_run(tmp_path / "runs" / "b", "pods", 0, ACCURACIES)
    report(tmp_path)
    (panel,) = figures_of(tmp_path)["kept_and_dropped"].axes
    assert panel.get_title(loc="left") == "pods"


def test_a_run_that_logs_as_the_page_on_reports_shows_has_a_report(tmp_path):
    run = RunFolder(tmp_path / "runs" / "pods" / "seed-0")
    run.write_config({"arm": "pods", "seed": 42, "num_rollouts": 64, "num_generations": 16})
    run.append_metrics({"step": 1, "reward": 0.31, "pods/training_seconds": 1.7})
    report(tmp_path)
    assert set(figures_of(tmp_path)) == {"reward", "kept_and_dropped", "seconds_per_step"}
    (bar,) = figures_of(tmp_path)["seconds_per_step"].axes[0].patches  # no phase is known
    assert bar.get_width() == 1.7
    append_evaluation(run, evaluation(1, 1.7, 0.5))
    assert "accuracy" in figures_of(tmp_path, clock=Clock(generate=1.0))
    write_training(tmp_path / "other", (0.2, 0.4))  # of two arms one knows its lengths
    shutil.move(run.path / "evaluations.jsonl", tmp_path)
    assert [t.get_text() for t in figures_of(tmp_path)["length"].axes[0].texts] == ["other"]


def test_tokens_are_those_of_a_generation(tmp_path):
    tokens = {"pods/kept_tokens": 90.0, "pods/dropped_tokens": 270.0}
    run = write_training(
        tmp_path, (0.2, 0.5), **{k: lambda s, v=v: v if s % 2 else None for k, v in tokens.items()}
    )
    (axes,) = figures_of(run.path)["tokens"].axes
    assert [bar.get_width() for bar in axes.patches] == [90.0, 270.0]  # not half of it, per step
    assert axes.get_title(loc="left") == "Tokens per generation"
    assert "per generation" in describe("tokens", load_comparison([run.path], Choices()))
