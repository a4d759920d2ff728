"""Reports of runs that logged less than `PODSTrainer` does."""

import re

from podslab.report.load_runs import Choices, load_comparison
from podslab.report.write_report import write_report
from support.synthetic_runs import write_run


def test_a_run_with_evaluations_and_without_phases_has_all_figures(tmp_path):
    run = write_run(tmp_path / "runs", "grpo", 0, (0.1, 0.4, 0.6, 0.8))
    lines = (run.path / "metrics.jsonl").read_text()
    untimed = re.sub(r'("pods/seconds_[a-z]+"): [^,}]*', r"\1: null", lines)
    assert untimed != lines
    (run.path / "metrics.jsonl").write_text(untimed)
    comparison = load_comparison([tmp_path / "runs"], Choices())
    assert comparison.arms[0].phases == {}
    write_report([comparison], tmp_path / "report", "t")
    figures = {path.stem for path in (tmp_path / "report" / "figures").iterdir()}
    assert figures == {"accuracy", "seconds_per_step", "length"}
