"""`pods demo`: equal training time, a table of what runs hold, a verdict from the numbers."""

import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip("trl")

from podslab.cli import demo
from podslab.comparison.comparison import RunKey, open_comparison
from podslab.comparison.comparison_config import parse_comparison
from podslab.report.arm_rows import ArmRow, arm_rows, table, verdict
from podslab.report.load_runs import Choices, load_comparison
from podslab.statistics.curves import ArmCurves
from podslab.training import lab_trainer
from podslab.training import run as experiment
from podslab.training.config_file import read_config
from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.clocks import CountedSeconds
from support.forked import pods

ARMS: dict[str, Any] = {
    "grpo": {},
    "grpo_ga": {},
    "pods": {},
    "max_contrast": {
        "num_rollouts": 2,
        "num_generations": 1,
        "downsampling_rule": "max_contrast",
        "advantage_baseline": "group",
    },
}
SUPPORT = Path(__file__).parents[3] / "tests" / "support"
WITHOUT_TORCH = [sys.executable, str(SUPPORT / "comparison_worker.py")]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---- what is shipped -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n", "m", "prompts"), [("tiny", 64, 16, 1), ("smollm2", 32, 8, 2)]
)
def test_the_arms_are_the_papers_and_one_more_with_equally_many_rows(name, n, m, prompts, tmp_path):
    config = {**read_config(demo.DEMOS[name].config), "output_dir": str(tmp_path / "demo")}
    spec = parse_comparison(config, "demo")
    assert spec.unit == "training_seconds"
    args = {arm: spec.run_spec(RunKey(arm, 0)).training for arm in spec.arms}
    sizes = {arm: (a.num_rollouts, a.num_generations) for arm, a in args.items()}
    assert sizes == {"grpo": (m, m), "grpo_ga": (n, n), "pods": (n, m), "max_contrast": (4, 1)}

    def rows(arm: str) -> int:
        return args[arm].per_device_train_batch_size * args[arm].gradient_accumulation_steps

    kept, all_rows = prompts * m, prompts * n
    assert [rows(arm) for arm in sizes] == [kept, all_rows, kept, kept]
    assert args["pods"].downsampling_rule == "max_variance"
    assert args["pods"].advantage_baseline == "kept"


# ---- the table -----------------------------------------------------------------------------------


def test_the_table_holds_the_numbers_of_the_runs_which_have_equal_training_time(
    comparison, tmp_path, monkeypatch
):
    # Every machine makes as many steps in a second.
    monkeypatch.setattr(lab_trainer, "time", CountedSeconds())
    settings = {"training_clock": "cpu", "num_iterations": 2}
    budget = {"training_seconds": 1.0}
    config = comparison(settings, arms=ARMS, budget=budget, evaluations=2)
    spec = open_comparison(parse_comparison(config, "x"))
    for run in spec.runs():
        run_spec = spec.run_spec(run)
        experiment.train(run_spec, experiment.load_data(run_spec))

    labels = {arm: arm for arm in ARMS} | {"pods": "PODS"}
    shown = arm_rows(load_comparison([spec.folder], Choices()), labels)
    assert [arm.label for arm in shown] == ["grpo", "grpo_ga", "PODS", "max_contrast"]
    # of 4 rows: 1 prompt x 4, 1 x 8 in two micro-batches, 1 x 8 of which 4 are kept, 4 x 2
    sizes = [(arm.generated, arm.trained) for arm in shown]
    assert sizes == [(4, 4), (8, 8), (8, 4), (8, 4)]

    for arm, name in zip(shown, ARMS, strict=True):
        folder = spec.folder / name / "seed-0"
        steps = [
            row for row in lines_of(folder / "metrics.jsonl") if "pods/training_seconds" in row
        ]
        points = lines_of(folder / "evaluations.jsonl")
        assert arm.steps == [points[-1]["step"]]
        assert arm.steps == [steps[-1]["step"]]
        assert (arm.start, arm.end) == (points[0]["answer_accuracy"], points[-1]["answer_accuracy"])
        assert arm.generating == [pytest.approx(sum(s["pods/seconds_generate"] for s in steps))]
        assert arm.updating == [pytest.approx(sum(s["pods/seconds_update"] for s in steps))]
        # without its last step the run would have been too short
        before_last, last = (row["pods/training_seconds"] for row in steps[-2:])
        assert before_last < spec.amount <= last

    found = load_comparison([spec.folder], Choices())
    said = demo.summary(shown, spec.amount, {arm.name: arm.curves for arm in found.arms})
    assert f"{100 * shown[2].end[0]:.0f} %" in said
    assert "tep of PODS was worth" in said
    assert demo.PAYS in said


def arm(label: str, early: list[float], end: list[float], answers: int = 256) -> ArmRow:
    seeds = len(end)
    return ArmRow(
        label,
        64,
        16,
        [100] * seeds,
        [0.08] * seeds,
        early,
        end,
        [10.0] * seeds,
        [30.0] * seeds,
        answers,
    )


def curves_of(name: str, accuracy: list[float], seconds: float = 1.0) -> ArmCurves:
    """A run that was evaluated every 10 steps."""
    steps = np.array([[10.0 * point for point in range(len(accuracy))]])
    unknown = np.full_like(steps, np.nan)
    return ArmCurves(
        arm=name,
        seeds=(0,),
        steps=steps,
        seconds=seconds * steps,
        generated=unknown,
        trained=unknown,
        accuracy=np.array([accuracy]),
        length=unknown,
        answers=np.full_like(steps, 256.0),
    )


#: Runs that learn nothing.
LEVEL = {name: curves_of(name, [0.1, 0.1, 0.1]) for name in ("grpo", "pods")}


def test_its_last_lines_say_what_a_step_is_worth_and_costs():
    arms = [arm("GRPO", [0.2], [0.5]), arm("PODS", [0.3], [0.7])]
    # 20 points in 10 steps of PODS, and in 20 of GRPO; a step takes 1.4 s in place of 1 s
    grpo = curves_of("grpo", [0.1, 0.2, 0.3, 0.4, 0.5])
    pods = curves_of("pods", [0.1, 0.3, 0.5], seconds=1.4)
    said = demo.summary(arms, 40.0, {"grpo": grpo, "pods": pods})
    assert "A step of PODS was worth 2.0 of GRPO's, and took 1.4 times as long." in said
    assert "can't be told from these runs: grpo learned no more" in demo.summary(arms, 40.0, LEVEL)


def test_several_seeds_are_shown_as_their_mean_with_the_least_and_the_most():
    printed = table([arm("PODS", [0.2, 0.4], [0.48, 0.56])], 40.0)
    heads, row = printed.splitlines()
    assert "after 10 s" in heads
    assert "52 % (48-56)" in row
    assert "30 % (20-40)" in row
    assert "64 → 16" in row


def test_that_pods_does_not_lead_is_said():
    arms = [arm("GRPO", [0.2], [0.9]), arm("GRPO-GA", [0.3], [0.1]), arm("PODS", [0.45], [0.52])]
    said = verdict(arms, "After 40 s", {a.label: a.end for a in arms})
    assert said == (
        "After 40 s GRPO has the most right answers, 90 %. PODS does not lead: it has 52 %,"
        " ahead of GRPO-GA (10 %), behind GRPO (90 %)."
    )
    said = verdict(arms, "After 10 s", {a.label: a.early for a in arms})
    assert said == (
        "After 10 s PODS has the most right answers, 45 %: ahead of GRPO (20 %) and GRPO-GA (30 %)."
    )


def test_what_so_few_answers_cannot_tell_is_called_level():
    def said(answers: int) -> str:
        arms = [arm("GRPO", [0.5], [0.5], answers), arm("PODS", [0.5], [0.58], answers)]
        return demo.summary(arms, 40.0, LEVEL)

    # one standard error of a difference: sqrt(0.25 / 256 + 0.2436 / 256) = 4.4 points; 8 < 8.8
    assert "After 40 s PODS has the most right answers, 58 %: level with GRPO (50 %)." in said(256)
    assert "Level: closer than 256 answers can tell" in said(256)
    assert "After 40 s PODS has the most right answers, 58 %: ahead of GRPO (50 %)." in said(1024)


def test_of_several_seeds_an_arm_is_ahead_if_it_is_in_all():
    ends = {"PODS": [0.55, 0.58, 0.4], "GRPO": [0.5, 0.5, 0.6], "GRPO-GA": [0.1, 0.2, 0.3]}
    arms = [arm(label, end, end) for label, end in ends.items()]
    said = demo.summary(arms, 40.0, LEVEL)
    assert "it has 51 %, ahead of GRPO-GA (20 %), level with GRPO (53 %)." in said
    assert "or not in the same order in all seeds." in said

    # ahead in all three, by 1 point of 3 x 256 answers: one standard error is 2.5 points
    arms = [arm("GRPO", [0.5] * 3, [0.5] * 3), arm("PODS", [0.5] * 3, [0.51] * 3)]
    assert "After 40 s PODS has the most right answers, 51 %: level with" in demo.summary(
        arms, 40.0, LEVEL
    )


# ---- the command; its runs' processes import no torch --------------------------------------------


@pytest.fixture
def quick_demo(comparison, tmp_path, monkeypatch) -> list[str]:
    """`pods demo` with runs that write files of known numbers and train nothing."""
    tests = str(SUPPORT.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ["PYTHONPATH"]]))
    budget = {"training_seconds": 8}
    config = comparison(arms=ARMS, budget=budget, evaluations=4, launch=WITHOUT_TORCH)
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    monkeypatch.setitem(demo.DEMOS, "tiny", demo.Demo(str(path), "Sums of two columns.", 1))
    return ["demo", "--output_dir", str(tmp_path / "shown")]


def behave(tmp_path: Path, **arms: str) -> None:
    (tmp_path / "behave.json").write_text(json.dumps(arms))


def finished(folder: Path) -> list[str]:
    return [arm for arm in ARMS if RunFolder(folder / arm / "seed-0").finished() is not None]


def test_the_demo_prints_its_table_and_a_second_one_goes_beside_it(quick_demo, tmp_path, capsys):
    assert main(quick_demo) == 0
    printed = capsys.readouterr()
    for line in (
        "Sums of two columns.",
        "8 rollouts of a prompt; trains on all, by gradient accumulation",
        "2 rollouts of each of 4 prompts; trains on 4, chosen across prompts",
        "After 2 s ",
        "After 8 s ",
        demo.PAYS,
        f"pods inspect {tmp_path / 'shown' / 'pods' / 'seed-0'}",
    ):
        assert line in printed.out
    assert "GRPO-GA       10 → 50 → 50 → 50 → 50 % right" in printed.err
    for name in ("figures/accuracy.png", "report.html", "comparison.yaml"):
        assert (tmp_path / "shown" / name).stat().st_size > 0

    before = (tmp_path / "shown" / "pods" / "seed-0" / "metrics.jsonl").read_bytes()
    assert main(quick_demo) == 0
    assert f"this demo is written to {tmp_path / 'shown-2'}" in capsys.readouterr().out
    assert finished(tmp_path / "shown-2") == list(ARMS)
    assert (tmp_path / "shown" / "pods" / "seed-0" / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_killed_demo_goes_on_and_more_seeds_are_added_to_a_finished_one(
    quick_demo, tmp_path, capsys
):
    folder = tmp_path / "shown"
    log = tmp_path / "log"
    behave(tmp_path, pods="hold")
    process = pods(quick_demo, log)
    process.wait_for(lambda: finished(folder) == ["grpo", "grpo_ga", "max_contrast"])
    process.send(signal.SIGKILL)
    before = (folder / "grpo" / "seed-0" / "metrics.jsonl").read_bytes()

    behave(tmp_path)
    assert main(quick_demo) == 0
    assert f"The demo in {folder} is not finished; it continues" in capsys.readouterr().out
    assert finished(folder) == list(ARMS)
    assert (folder / "grpo" / "seed-0" / "metrics.jsonl").read_bytes() == before

    assert main([*quick_demo, "--seeds", "2"]) == 0
    assert ", 2 seeds, without the evaluations" in capsys.readouterr().out
    assert (folder / "grpo" / "seed-0" / "metrics.jsonl").read_bytes() == before
    for name, seed in itertools.product(ARMS, (0, 1)):
        assert RunFolder(folder / name / f"seed-{seed}").finished() is not None


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_are_finished(quick_demo, tmp_path, capsys):
    behave(tmp_path, grpo="kill")
    assert main(quick_demo) == 1
    assert "failed: grpo seed 0: killed by signal 9" in capsys.readouterr().err
    assert finished(tmp_path / "shown") == ["grpo_ga", "pods", "max_contrast"]


@pytest.mark.slow
def test_two_runs_at_once_are_trained_side_by_side(quick_demo, tmp_path):
    behave(tmp_path, grpo="hold", grpo_ga="hold")
    process = pods(quick_demo, tmp_path / "log")
    first, second = (RunFolder(tmp_path / "shown" / arm / "seed-0") for arm in ("grpo", "grpo_ga"))
    if (os.cpu_count() or 1) > 1:
        process.wait_for(lambda: len(first.metrics()) == 5 and len(second.metrics()) == 5)
    assert finished(tmp_path / "shown") == []
    process.send(signal.SIGKILL)
