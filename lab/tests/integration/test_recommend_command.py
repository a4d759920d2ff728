"""`pods recommend`: what was measured comes first, then costs of runs and steps, and advice."""

import pytest

from podslab.own_script.run_plan import ANSWER
from podslab.recommend import our_comparison
from podslab.recommend.costs_of_runs import read_costs
from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.synthetic_runs import evaluation


def write_run(folder, generate=2.0, update=1.0, spared=0, passes=1, peak=2.0, every=1, **config):
    """Three lines of steps of 4 prompts, 8 -> 2: 32 rollouts in `generate` s, 8 rows in `update`.

    A line is of `every` steps, as with logging_steps.
    """
    run = RunFolder(folder)
    run.write_config({"arm": "pods", "seed": 0, "task": "sums", **config})

    for step in range(every, 3 * every + 1, every):
        warm_up = 10.0 if step == every else 0.0
        run.append_metrics(
            {
                "step": step,
                "pods/training_seconds": float(step),
                "pods/rollouts": 32.0,
                "pods/kept_rollouts": 8.0,
                "pods/rollouts_generated": 32.0 * step,
                "pods/rollouts_trained": 8.0 * step,
                "pods/rows_passed": float(step * passes * (8 - spared)),
                "pods/seconds_generate": generate + warm_up,
                "pods/seconds_score": 0.0,
                "pods/seconds_select": 0.0,
                "pods/seconds_update": update + warm_up,
                "pods/peak_memory": peak * 2**30,
                "frac_reward_zero_std": 0.25,
                "completions/mean_length": 40.0,
            }
        )
    return run


@pytest.mark.parametrize("every", [1, 10])
def test_costs_are_per_rollout_and_per_row_that_had_a_pass_without_the_first_line(tmp_path, every):
    run = write_run(tmp_path / "a", generate=3.2, update=1.0, spared=4, every=every)
    costs = read_costs([run])
    assert costs.steps == 2 * every
    assert costs.rollout == pytest.approx(0.1)
    assert costs.row == pytest.approx(0.25)  # 4 of 8 rows had a pass
    assert costs.ratio == pytest.approx(0.4)
    assert (costs.rows, costs.rollouts_per_row) == (8.0, 4.0)
    assert (costs.equal_share, costs.tokens) == (0.25, 40.0)

    run = write_run(tmp_path / "b", generate=3.2, update=2.0, passes=2, every=every)
    twice = read_costs([run])
    assert twice.row == pytest.approx(2.0 / 16)  # of two passes over 8 rows


def test_a_generation_that_serves_several_steps_counts_once(tmp_path):
    # Of every four steps the first has 32 rollouts in 3.2 s, and each 2 rows in 0.5 s.
    run = RunFolder(tmp_path)
    run.write_config({"arm": "grpo", "seed": 0})
    for step in range(1, 14):
        generates = step % 4 == 1
        sizes = {"pods/rollouts": 32.0, "pods/kept_rollouts": 8.0} if generates else {}
        generations = (step + 3) // 4
        run.append_metrics(
            {
                "step": step,
                **sizes,
                "pods/rollouts_generated": 32.0 * generations,
                "pods/rollouts_trained": 8.0 * generations,
                "pods/rows_passed": 2.0 * step,
                "pods/seconds_generate": 3.2 if generates else 0.0,
                "pods/seconds_update": 0.5,
            }
        )
    costs = read_costs([run])
    assert costs.steps == 12
    assert (costs.rollout, costs.row) == (pytest.approx(0.1), pytest.approx(0.25))
    assert (costs.rows, costs.rollouts_per_row) == (8.0, 4.0)


def test_a_step_of_another_size_takes_as_long_as_between_two_extremes(tmp_path):
    # 32 rollouts in 3.2 s, 8 rows in 2 s. So 64 rollouts take 3.2 s if they cost nothing more side
    # by side, and 6.4 s if each costs as much; and 8 rollouts 3.2 or 0.8 s.
    costs = read_costs([write_run(tmp_path / "run", generate=3.2, update=2.0)])
    assert costs.seconds(8.0) == pytest.approx((3.2 + 2.0, 6.4 + 2.0))
    assert costs.seconds(4.0) == pytest.approx((5.2, 5.2))
    assert costs.seconds(1.0) == pytest.approx((3.2 + 2.0, 0.8 + 2.0))
    assert costs.beside_grpo(4.0) == pytest.approx(5.2 / 2.8)


def test_it_says_what_a_step_takes_and_how_many_rollouts_fit(tmp_path, capsys):
    write_run(tmp_path / "run", generate=3.2, update=2.0)
    assert main(["recommend", str(tmp_path / "run"), "--seconds", "4.4"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "g/u 0.4" in out
    assert "n = m, GRPO 5.2 s 2.8 s n = 2 m" in out
    assert "n = 4 m 5.2 s (1.0 of GRPO's) 5.2 s (1.9 of GRPO's)" in out
    assert "n = 8 m 5.2 s (1.0 of GRPO's) 8.4 s (3.0 of GRPO's)" in out
    assert "within 4.4 s: n up to 3.0 m if each costs as much, or more" in out
    assert "pods compare train.py" in out


def test_the_advice_of_our_comparison_stands_below_in_lines_without_markup(
    tmp_path, capsys, monkeypatch
):
    page = tmp_path / "advice.md"
    page.write_text(
        "By our comparison:\n\n<!-- generated: comparison-advice -->\n* **36% of samples right** "
        + "and conditions that go on " * 5
        + ": pods.\n* **If you know nothing**: grpo-8.\n<!-- end -->\n"
    )
    monkeypatch.setattr(our_comparison, "_PAGE", page)
    write_run(tmp_path / "run")
    assert main(["recommend", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out.partition("By our comparison:\n")[2].splitlines()
    assert said[0].startswith("* 36% of samples right and")
    assert said[1].startswith("  ")
    assert said[1].endswith(": pods.")
    assert max(len(line) for line in said) <= 100
    assert said[2:4] == ["* If you know nothing: grpo-8.", ""]


def test_runs_of_two_sizes_say_how_many_rows_of_a_pass_fit_into_a_memory(tmp_path, capsys):
    write_run(tmp_path / "a", peak=6.0, per_device_train_batch_size=8)
    write_run(
        tmp_path / "b", peak=10.0, per_device_train_batch_size=16
    )  # 2 GiB, and a half per row
    assert main(["recommend", str(tmp_path), "--memory", "24"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Within 24.00 GiB: up to 44 rows in a pass" in out
    assert "a prediction, by a line through runs with 8, 16" in out

    assert main(["recommend", str(tmp_path), "--memory", "2"]) == 0
    assert "Within 2.00 GiB: not even one row in a pass" in capsys.readouterr().out


def test_runs_of_one_size_cant_say_how_memory_grows(tmp_path, capsys):
    write_run(tmp_path / "a", per_device_train_batch_size=8)
    write_run(tmp_path / "b", per_device_train_batch_size=8)
    assert main(["recommend", str(tmp_path), "--memory", "24"]) == 0
    assert "these runs can't say, as it takes runs with different" in capsys.readouterr().out


def test_what_a_comparison_measured_comes_first(tmp_path, capsys):
    write_run(tmp_path / "reported" / "pods" / "seed-0")
    (tmp_path / ANSWER).write_text("pods has 0.400 more reward than grpo\n")
    assert main(["recommend", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.index("pods has 0.400 more reward") < out.index("g/u")


def test_a_comparison_of_the_laboratory_is_shown_by_its_table(tmp_path, capsys):
    from podslab.evaluation.records import append_evaluation

    (tmp_path / "comparison.yaml").write_text(
        "{arms: {grpo: {}, pods: {}}, seeds: [0], budget: {training_seconds: 3},"
        " evaluations: 1, launch: []}"
    )
    for arm, right in (("grpo", 0.4), ("pods", 0.6)):
        run = write_run(tmp_path / arm / "seed-0", arm=arm)
        append_evaluation(run, evaluation(0, 0.0, 0.1))
        append_evaluation(run, evaluation(3, 3.0, right))
        run.finish(arm, 0, 3, 3.0)
    assert main(["recommend", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "60 %" in out
    assert out.index("60 %") < out.index("g/u")


def test_a_run_without_timed_steps_says_what_to_do(tmp_path, capsys):
    RunFolder(tmp_path).write_config({"arm": "pods", "seed": 0})
    assert main(["recommend", str(tmp_path)]) == 2
    assert "train until the log has a second line" in capsys.readouterr().err
