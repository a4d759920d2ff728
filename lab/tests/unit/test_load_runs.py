import json
import math
import re
import shutil

import pytest
import yaml

from podslab.evaluation.records import append_evaluation
from podslab.report.load_runs import Choices, load_comparison
from podslab.report.summary import as_json, as_markdown, summarise
from podslab.statistics.curves import Clock, share_passed
from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.rollout_log.run_folder import RunFolder
from support.synthetic_runs import evaluation, write_metrics, write_run

SLOW = (0.1, 0.4, 0.6, 0.8)  # 99 % of 0.8 at the third evaluation, 30 steps of 1 s
FAST = (0.1, 0.8, 0.8, 0.8)  # at the first, 10 steps of 1.5 s: 30 s / 15 s = 2x


def write_comparison(folder, seeds=(0, 1)):
    for seed in seeds:
        write_run(folder / "grpo" / f"seed-{seed}", "grpo", seed, SLOW)
        write_run(folder / "pods" / f"seed-{seed}", "pods", seed, FAST, n=64, seconds_per_step=1.5)
    return folder


def numbers(*folders, **choices):
    comparison = load_comparison(folders, Choices(**choices))
    return as_json(comparison, summarise(comparison))


def test_a_known_comparison_gives_exactly_the_known_numbers(tmp_path):
    grpo, pods = numbers(write_comparison(tmp_path))["arms"]
    assert (grpo["arm"], pods["arm"]) == ("grpo", "pods")
    assert pods["seeds"] == (0, 1)
    assert grpo["base"]["mean"] == pytest.approx(0.1)
    assert grpo["peak"] == {"mean": pytest.approx(0.8), "error": pytest.approx(0.0), "seeds": 2}
    assert grpo["peak_seconds"] == 30.0
    assert (pods["steps"], pods["seconds_per_step"], pods["training_seconds"]) == (30, 1.5, 45.0)
    assert (pods["generated"], pods["trained"]) == (30 * 64, 30 * 16)
    assert pods["peak_memory"] == 2**30
    speedup = pods["speedups"]["grpo"]
    assert (speedup["reference_seconds"], speedup["seconds"], speedup["ratio"]) == (30.0, 15.0, 2.0)
    assert (speedup["low"], speedup["high"], speedup["median"]) == (2.0, 2.0, 2.0)


def test_reordering_folders_seeds_and_names_changes_nothing(tmp_path):
    write_comparison(tmp_path / "a", seeds=(0, 1, 2))
    run = tmp_path / "a" / "pods" / "seed-1"
    shutil.rmtree(run)
    write_run(run, "pods", 1, (0.1, 0.3, 0.8, 0.9), n=64, seconds_per_step=1.5)
    first = numbers(tmp_path / "a")
    for i, path in enumerate(sorted((tmp_path / "a").glob("*/*"), reverse=True)):
        shutil.copytree(path, tmp_path / "b" / f"{i}-renamed")
    folders = sorted((tmp_path / "b").iterdir(), reverse=True)
    assert numbers(*folders) == first
    assert numbers(*folders[::2], *folders[1::2], folders[0]) == first  # one of them given twice


def test_the_measure_can_be_chosen(tmp_path):
    pods = numbers(write_comparison(tmp_path), measure="both_accuracy")["arms"][1]
    assert pods["peak"]["mean"] == pytest.approx(0.78)  # 0.02 less than the answers alone


def test_a_comparison_in_which_nobody_learned_has_no_ratio_anywhere(tmp_path):
    for arm in ("grpo", "pods"):
        for seed in (0, 1):
            write_run(tmp_path / arm / f"seed-{seed}", arm, seed, (0.06, 0.07, 0.05, 0.06))

    comparison = load_comparison([tmp_path], Choices())
    summaries = summarise(comparison)
    found = as_json(comparison, summaries)["arms"][1]
    assert (found["rise"]["learned"], found["speedups"]["grpo"]["learned"]) == (False, False)
    assert (found["speedups"]["grpo"]["ratio"], found["speedups"]["grpo"]["median"]) == (None, None)

    text = as_markdown(comparison, summaries)
    assert "**6.0 % → 6.0 %** pods: answers right, in 30 steps (30 s of training time)." in text
    assert "* **nothing learned**: grpo did not learn: its best is 1 points above its start" in text
    assert "noise: there is nothing to reach." in text
    assert "| speed-up over grpo | reference | nothing learned |" in text
    assert not re.search(r"\d\.\d+x", text)


def test_an_arm_that_learned_beside_a_reference_that_did_not_is_named(tmp_path):
    write_run(tmp_path / "grpo", "grpo", 0, (0.1, 0.1, 0.1))
    write_run(tmp_path / "pods", "pods", 0, (0.1, 0.8, 0.8))
    comparison = load_comparison([tmp_path], Choices())
    text = as_markdown(comparison, summarise(comparison))
    assert "**10 % → 80 %** pods" in text
    assert "grpo did not learn" in text


def test_a_run_without_evaluations_is_refused(tmp_path):
    RunFolder(tmp_path / "b").write_config({"arm": "pods", "seed": 0})
    for clock in (None, Clock(update=1.0)):
        with pytest.raises(InvalidInputError, match=r"no evaluation in .*b; `pods inspect` shows"):
            numbers(tmp_path, clock=clock)


def test_a_run_that_ends_while_it_is_read_is_not_called_finished_without_its_last_evaluation(
    tmp_path, monkeypatch
):
    accuracies = (0.1, 0.3, 0.8)
    run = write_run(tmp_path / "pods", "pods", 0, accuracies)
    (run.path / "finished.json").unlink()
    read = RunFolder.metrics

    def read_while_it_ends(folder):
        rows = read(folder)
        append_evaluation(folder, evaluation(30, 30, 0.9))
        folder.finish("pods", 0, 30, 30.0)
        return rows

    with monkeypatch.context() as while_reading:
        while_reading.setattr(RunFolder, "metrics", read_while_it_ends)
        comparison = load_comparison([tmp_path], Choices())
    assert f"{run.path} is not finished" in comparison.notes

    comparison = load_comparison([tmp_path], Choices())
    assert not any("is not finished" in note for note in comparison.notes)
    assert len(comparison.runs[0].evaluations) == len(accuracies) + 1


def test_mixed_tasks_are_refused(tmp_path):
    write_comparison(tmp_path)
    append_evaluation(RunFolder(tmp_path / "pods/seed-1"), evaluation(40, 40, 0.3, task="gsm8k"))
    with pytest.raises(InvalidInputError, match=r"mixed problems: arithmetic.*gsm8k"):
        numbers(tmp_path)


def test_runs_on_different_problems_of_one_task_are_mixed_tasks(tmp_path):
    write_comparison(tmp_path)
    path = tmp_path / "grpo" / "seed-0" / "evaluations.jsonl"
    path.write_text(path.read_text().replace('"problems": 100', '"problems": 200'))
    with pytest.raises(InvalidInputError, match=r"100 test problems.*200 test problems") as found:
        numbers(tmp_path)
    assert str(found.value).endswith("can't be compared: report the folders apart")


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (
            {"data_path": "easy"},
            {"data_path": "hard"},
            "data_path easy .as in .*grpo.; hard .as in",
        ),
        ({"data_path": None}, {"data_path": "hard"}, "data_path None .*; hard "),
        (
            {"evaluation_temperature": 0.0},
            {"evaluation_temperature": 0.5},
            "temperature 0.0 .*0.5 ",
        ),
        (
            {"evaluation_temperature": None, "temperature": 0.7},
            {"evaluation_temperature": None, "temperature": 1.0},
            "evaluation_temperature 0.7 .*1.0 ",
        ),
        ({"max_completion_length": 64}, {"max_completion_length": 512}, "length 64 .*512 "),
        (
            {"task_options": '{"max_columns": 7}'},
            {"task_options": '{"max_columns": 6}'},
            "; max columns 6 .*; max columns 7 ",
        ),
    ],
)
def test_runs_evaluated_on_other_data_or_in_another_way_are_mixed(tmp_path, first, second, says):
    for arm, config in (("grpo", first), ("pods", second)):
        write_run(tmp_path / arm, arm, 0, SLOW, config=config)
    with pytest.raises(InvalidInputError, match=f"mixed problems: .*{says}.*folders apart"):
        numbers(tmp_path)


@pytest.mark.parametrize(
    "second",
    [
        {},  # a run of an earlier version, which does not say it
        {"data_path": None, "evaluation_temperature": 1, "max_completion_length": 64},
    ],
)
def test_runs_evaluated_alike_are_not_mixed_however_their_configs_say_it(tmp_path, second):
    first = {"evaluation_temperature": None, "temperature": 1.0, "max_completion_length": 64}
    write_run(tmp_path / "grpo", "grpo", 0, SLOW, config={**first, "data_path": None})
    write_run(tmp_path / "pods", "pods", 0, SLOW, config=second)
    assert len(numbers(tmp_path)["arms"]) == 2


def test_runs_that_are_not_finished_are_named_even_if_all_stand_at_the_same_point(tmp_path):
    write_comparison(tmp_path, seeds=(0,))
    assert numbers(tmp_path)["notes"] == []
    for arm in ("grpo", "pods"):
        (tmp_path / arm / "seed-0" / "finished.json").unlink()
    notes = numbers(tmp_path)["notes"]
    assert [note.endswith("seed-0 is not finished") for note in notes] == [True, True]


def test_an_evaluation_of_the_untrained_model_alone_is_no_curve(tmp_path):
    write_run(tmp_path / "pods", "pods", 0, (0.1,))
    with pytest.raises(InvalidInputError, match="only the evaluation of the untrained model"):
        numbers(tmp_path)


def test_a_run_that_was_resumed_elsewhere_was_made_on_both_machines(tmp_path):
    write_comparison(tmp_path, seeds=(0,))
    one, other = ({"cpu": name, "cores": 2, "gpus": []} for name in ("A", "B"))
    for arm in ("grpo", "pods"):
        path = tmp_path / arm / "seed-0" / "environment.json"
        path.write_text(json.dumps({**one, "resumed": [other] if arm == "pods" else []}))
    (note,) = numbers(tmp_path)["notes"]
    assert note.endswith("A, 2 cores, no GPU; B, 2 cores, no GPU")


def test_a_missing_seed_is_refused_and_left_out_of_a_partial_report(tmp_path):
    write_comparison(tmp_path, seeds=(0, 1, 2))
    shutil.rmtree(tmp_path / "pods" / "seed-2")
    with pytest.raises(InvalidInputError, match=r"missing runs: pods seed 2\..*pods compare"):
        numbers(tmp_path)
    found = numbers(tmp_path, partial=True)
    assert [arm["seeds"] for arm in found["arms"]] == [(0, 1), (0, 1)]
    assert "pods seed 2" in found["notes"][0]


def test_an_arm_that_the_spec_names_and_nobody_ran_is_refused(tmp_path):
    write_comparison(tmp_path)
    spec = {
        "arms": {"grpo": {}, "pods": {}, "grpo_ga": {"n": 64}},
        "seeds": [0, 1],
        "budget": {"steps": 30},
        "evaluations": 3,
        "launch": [],
    }
    (tmp_path / "comparison.yaml").write_text(yaml.safe_dump(spec))
    with pytest.raises(InvalidInputError, match=r"missing runs: grpo_ga seed 0, grpo_ga seed"):
        numbers(tmp_path)
    with pytest.raises(InvalidInputError, match="no seed is left"):
        numbers(tmp_path, partial=True)
    (tmp_path / "comparison.yaml").write_text("seeds: 2")
    with pytest.raises(InvalidInputError, match=r"comparison\.yaml is damaged"):
        numbers(tmp_path)


def test_unequal_evaluation_points_are_refused_and_unfinished_runs_can_be_left_out(tmp_path):
    write_comparison(tmp_path, seeds=(0, 1, 2))
    path = tmp_path / "pods" / "seed-2" / "evaluations.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))

    with pytest.raises(InvalidInputError, match=r"unequal evaluation points: .*pods/seed-2 has 2"):
        numbers(tmp_path)

    found = numbers(tmp_path, partial=True)
    assert [arm["seeds"] for arm in found["arms"]] == [(0, 1), (0, 1)]
    assert "pods/seed-2 is not finished" in found["notes"][0]
    assert found["notes"][1].startswith(
        "missing runs: pods seed 2 (unfinished); only seeds that every arm"
    )

    shutil.rmtree(tmp_path / "grpo" / "seed-0")
    shutil.rmtree(tmp_path / "grpo" / "seed-1")
    both = r"^missing runs: grpo seed 0, grpo seed 1, pods seed 2 \(unfinished\)\..*no seed is left"
    with pytest.raises(InvalidInputError, match=both):
        numbers(tmp_path, partial=True)


def test_two_runs_of_one_arm_and_seed_are_refused(tmp_path):
    write_comparison(tmp_path)
    shutil.copytree(tmp_path / "pods" / "seed-0", tmp_path / "again")
    with pytest.raises(InvalidInputError, match=r"both arm 'pods' with seed 0"):
        numbers(tmp_path)


def test_a_half_written_evaluation_is_named_in_the_notes(tmp_path):
    write_comparison(tmp_path)
    with (tmp_path / "pods" / "seed-0" / "evaluations.jsonl").open("a") as file:
        file.write('{"step": 40, "trai')
    found = numbers(tmp_path)
    assert "evaluations.jsonl, line 5 is half-written and was skipped" in found["notes"][0]
    assert found["arms"][1]["speedups"]["grpo"]["ratio"] == 2.0


def test_damaged_files_are_refused_by_name(tmp_path):
    write_comparison(tmp_path)
    path = tmp_path / "pods" / "seed-0" / "metrics.jsonl"
    path.write_text("x" + path.read_text())
    with pytest.raises(InvalidInputError, match=r"pods/seed-0/metrics\.jsonl, line 1 is damaged"):
        numbers(tmp_path)


def test_a_config_without_arm_or_seed_is_refused(tmp_path):
    RunFolder(tmp_path).write_config({"arm": "pods", "seed": "one"})
    with pytest.raises(InvalidInputError, match="must say the run's seed; got 'one'"):
        numbers(tmp_path)


def test_the_reference_must_be_an_arm_and_clear(tmp_path):
    write_run(tmp_path / "a", "max_variance", 0, FAST)
    write_run(tmp_path / "b", "random", 0, SLOW)
    with pytest.raises(InvalidInputError, match="--reference"):
        numbers(tmp_path)
    with pytest.raises(UnknownNameError, match="there are max_variance, random"):
        numbers(tmp_path, references=["pods"])
    arms = numbers(tmp_path, references=["random"])["arms"]
    assert arms[0]["speedups"]["random"]["ratio"] == 3.0  # 30 s / 10 s
    assert numbers(tmp_path / "a")["arms"][0]["speedups"] == {}  # an arm alone needs none


def test_arms_are_in_the_usual_order_and_by_the_numbers_in_their_names(tmp_path):
    for arm in ("n = 256", "pods", "n = 32", "grpo_ga", "grpo"):
        write_run(tmp_path / arm, arm, 0, SLOW)
    arms = [arm["arm"] for arm in numbers(tmp_path)["arms"]]
    assert arms == ["grpo", "grpo_ga", "pods", "n = 32", "n = 256"]


def test_runs_from_different_machines_are_pointed_out_for_measured_time_only(tmp_path):
    write_comparison(tmp_path)
    for arm, gpu in (("grpo", "L40S"), ("pods", "H100")):
        for seed in (0, 1):
            facts = {"cpu": "X", "cores": 8, "gpus": [gpu]}
            path = tmp_path / arm / f"seed-{seed}" / "environment.json"
            path.write_text(json.dumps(facts))
    (note,) = numbers(tmp_path)["notes"]
    assert "different hardware" in note
    assert "H100" in note
    assert numbers(tmp_path, clock=Clock(update=1.0))["notes"] == []


def test_modelled_time_is_labelled_everywhere_and_holds_no_measured_second(tmp_path):
    comparison = load_comparison([write_comparison(tmp_path)], Choices(clock=Clock(0.05, 0, 0.42)))
    summaries = summarise(comparison)
    found = as_json(comparison, summaries)
    assert (found["time"], found["clock"]) == (
        "modelled",
        {"generate": 0.05, "score": 0, "update": 0.42},
    )

    # a step: grpo 16 * 0.05 + 16 * 0.42 = 7.52 s; pods 64 * 0.05 + 16 * 0.42 = 9.92 s
    grpo, pods = summaries
    assert (grpo.seconds_per_step, pods.seconds_per_step) == pytest.approx((7.52, 9.92))
    speedup = pods.speedups["grpo"]
    assert speedup.ratio == pytest.approx(30 * 7.52 / (10 * 9.92))
    assert comparison.arm("pods").phases == {}

    text = as_markdown(comparison, summaries)
    for line in text.splitlines():
        if any(word in line for word in ("time", "seconds", "speed-up")):
            assert "modelled" in line.lower(), line


def test_a_second_pass_over_the_rollouts_is_paid_too(tmp_path):
    for arm, seed, passes in (("grpo", 0, None), ("pods", 0, 2)):
        write_run(tmp_path / arm, arm, seed, SLOW, config={"num_iterations": passes})
    clock = Clock(generate=0.05, update=0.42)
    comparison = load_comparison([tmp_path], Choices(clock=clock))
    # a step: 16 * 0.05 + 16 * 0.42 = 7.52 s in one pass, 16 * 0.05 + 2 * 16 * 0.42 = 14.24 in two
    found = [summary.seconds_per_step for summary in summarise(comparison)]
    assert found == pytest.approx([7.52, 14.24])
    assert comparison.clock == clock  # what was asked for is what is shown
    write_run(tmp_path / "other", "pods", 1, SLOW, config={"num_iterations": 1})
    write_run(tmp_path / "grpo-1", "grpo", 1, SLOW)
    with pytest.raises(InvalidInputError, match=r"'pods'.*num_iterations must be the same.*apart"):
        load_comparison([tmp_path], Choices(clock=clock))


def test_modelled_time_charges_no_update_for_rows_that_had_no_pass(tmp_path):
    for arm, skips in (("grpo", False), ("pods", True)):
        for seed, fillers in ((0, 12), (1, 16)):
            config = {"skip_zero_advantage": skips, "per_device_train_batch_size": 8}
            run = write_run(tmp_path / f"{arm}-{seed}", arm, seed, SLOW, config=config)
            rows = {"pods/kept_rollouts": 16, "pods/zero_advantage_rows": fillers}
            write_metrics(run, 30, 16, 16, **rows)
    comparison = load_comparison([tmp_path], Choices(clock=Clock(generate=0.05, update=0.42)))
    # a step: 16 * 0.05 + 16 * 0.42 = 7.52 s; of 16 rows 4 had a pass with one seed, and 2 with the
    # other, whose two micro-batches had one row each: 16 * 0.05 + 3 * 0.42 = 2.06 s on average
    found = summarise(comparison)
    assert [one.seconds_per_step for one in found] == pytest.approx([7.52, 2.06])
    assert [one.trained for one in found] == [480, 480]


def test_passes_that_were_counted_are_taken_as_they_are():
    config = {"num_iterations": 2, "skip_zero_advantage": True, "per_device_train_batch_size": 8}
    kept = {"pods/kept_rollouts": 16}
    totals = ("pods/rows_passed", "pods/rollouts_trained")
    rows = [{**kept, **dict(zip(totals, one, strict=True))} for one in ((20, 16), (28, 32))]
    assert share_passed(config, rows) == pytest.approx(28 / 64)
    assert share_passed(config, rows[1:], rows[0]) == pytest.approx(8 / 32)


def test_steps_are_split_into_their_phases(tmp_path):
    comparison = load_comparison([write_comparison(tmp_path)], Choices())
    assert comparison.arm("pods").phases == pytest.approx(
        {"generate": 0.6, "score": 0.15, "select": 0.0, "update": 0.75}
    )


def test_a_comparison_does_not_change_when_read_twice(tmp_path):
    write_comparison(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    numbers(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


# ---- rewards of a script of the user's own


def write_scored(folder, arm, seed, rewards_T, problems=3, unscored=()):
    """A run as `pods compare train.py` leaves it: answers a little below and above the rewards."""
    run = RunFolder(folder / arm / f"seed-{seed}")
    run.write_config({"arm": arm, "seed": seed, "task": "train"})
    for number, reward in enumerate(rewards_T):
        first = math.nan if number in unscored else reward - 0.125
        append_evaluation(
            run,
            evaluation(
                10 * number,
                10 * number,
                0.0,
                task="train",
                split="reported",
                problems=problems,
                answer_accuracy=(first, reward + 0.125),
                format_accuracy=(),
                both_accuracy=(),
                rewards=problems * [[first, reward + 0.125]],
            ),
        )
    run.finish(arm, seed, 10 * (len(rewards_T) - 1), 0.0)


@pytest.mark.parametrize("shift", [0.6, -10.0])
def test_rewards_that_are_no_shares_are_means_and_a_speedup_is_to_a_part_of_a_rise(tmp_path, shift):
    for seed in (0, 1):
        write_scored(tmp_path, "grpo", seed, [shift, shift + 0.5, shift + 0.9, shift + 1.0])
        write_scored(tmp_path, "pods", seed, [shift, shift + 1.0, shift + 1.1, shift + 1.2])
    comparison = load_comparison([tmp_path], Choices())
    found = summarise(comparison)
    grpo, pods = as_json(comparison, found)["arms"]
    assert comparison.measure == "mean_reward"
    assert grpo["base"]["mean"] == pytest.approx(shift)
    assert pods["peak"]["mean"] == pytest.approx(shift + 1.2)
    assert grpo["rise"] == {"size": pytest.approx(1.0), "noise": 0.0, "learned": True}
    # start + 0.99 x 1, which grpo has after 30 s and pods after 10 s
    assert pods["speedups"]["grpo"]["threshold"] == pytest.approx(shift + 0.99)
    assert pods["speedups"]["grpo"]["ratio"] == pytest.approx(3.0)

    text = as_markdown(comparison, found)
    assert f"| reward at the start | {shift:.3f} ± 0.000 | {shift:.3f} ± 0.000 |" in text
    assert "time to 99 % of grpo's rise" in text
    assert "accuracy" not in text
    assert "answers right" not in text


def test_answers_that_could_not_be_scored_are_left_out_of_a_report(tmp_path):
    # The first answer to every question has no reward at the third measurement.
    write_scored(tmp_path, "grpo", 0, [0.25, 0.5, 0.625, 1.25], unscored=(2,))
    (arm,) = load_comparison([tmp_path], Choices()).arms
    assert arm.curves.accuracy.tolist() == [[0.25, 0.5, 0.75, 1.25]]  # 0.625 + 0.125


def test_rewards_of_right_and_wrong_answers_leave_a_report_as_it_is(tmp_path):
    write_comparison(tmp_path / "without")
    write_comparison(tmp_path / "with")
    for path in (tmp_path / "with").rglob("evaluations.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rewards = [[0.0, 1.0], [1.0, None]]
        path.write_text("".join(json.dumps({**row, "rewards": rewards}) + "\n" for row in rows))
    assert numbers(tmp_path / "with") == numbers(tmp_path / "without")


def test_a_measure_that_no_evaluation_has_is_refused(tmp_path):
    write_scored(tmp_path, "grpo", 0, [0.25, 0.5])
    with pytest.raises(InvalidInputError, match="'grpo' has no format_accuracy at any evaluation"):
        load_comparison([tmp_path], Choices(measure="format_accuracy"))
    write_scored(tmp_path / "unscored", "grpo", 0, [math.nan, math.nan])
    with pytest.raises(InvalidInputError, match="no answer could be scored"):
        load_comparison([tmp_path / "unscored"], Choices())
