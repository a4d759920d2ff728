"""`pods recommend`: what steps cost, in logs and measured, beside what they are worth."""

import json
from pathlib import Path

import pytest
from filelock import FileLock

from podslab.own_script.job import StepSizes
from podslab.own_script.run_plan import ANSWER
from podslab.own_script.settings import GivenSettings
from podslab.recommend.answer import answer
from podslab.recommend.costs_of_runs import read_costs
from podslab.recommend.known_worth import (
    KnownWorth,
    MeasuredWorth,
    authors_worths,
    known_worths,
    read_worths,
    write_worths,
)
from podslab.recommend.logs import read_logs
from podslab.recommend.measured_steps import MeasuredStep, MeasuredSteps
from podslab.recommend.memory_of_passes import rows_in_words
from podslab.recommend.memory_of_rollouts import rollouts_in_words
from podslab.statistics.worth import Ratio, StepValue
from podsrl.cli import main
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder
from support.synthetic_runs import evaluation

DATA = Path(__file__).parents[3] / "tests" / "data" / "verl-logs"


def write_run(
    folder, generate=2.0, update=1.0, spared=0, passes=1, peak=2.0, every=1, n=8, **config
):
    """Three lines of steps of 4 prompts, n -> 2: 4 n rollouts in `generate` s, 8 rows in `update`.

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
                "pods/rollouts": 4.0 * n,
                "pods/kept_rollouts": 8.0,
                "pods/rollouts_generated": 4.0 * n * step,
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


def said_of(*words, capsys):
    assert main(["recommend", *map(str, words)]) == 0
    return " ".join(capsys.readouterr().out.split())


# ---- costs of runs


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
    assert costs.phases == pytest.approx(
        {"generate": 3.2, "score": 0.0, "select": 0.0, "update": 1.0}
    )

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
    assert costs.phases["generate"] == pytest.approx(0.8)  # of a step: 3.2 s serve four


def test_a_step_of_another_size_takes_as_long_as_between_two_extremes(tmp_path):
    # 32 rollouts in 3.2 s, 8 rows in 2 s. So 64 rollouts take 3.2 s if they cost nothing more side
    # by side, and 6.4 s if each costs as much; and 8 rollouts 3.2 or 0.8 s.
    costs = read_costs([write_run(tmp_path / "run", generate=3.2, update=2.0)])
    assert costs.seconds(8.0) == pytest.approx((3.2 + 2.0, 6.4 + 2.0))
    assert costs.seconds(4.0) == pytest.approx((5.2, 5.2))
    assert costs.seconds(1.0) == pytest.approx((3.2 + 2.0, 0.8 + 2.0))


# ---- what pays


def test_the_size_whose_worth_is_farthest_above_its_cost_is_named():
    # Steps of 2, 2.6 and 8 s cost 1, 1.3 and 4; worths 2 and 3 over them are 1.54 and 0.75.
    steps = [
        MeasuredStep("grpo" if size == 1 else "pods", size, 16, {"generate": seconds}, steps=3)
        for size, seconds in ((1.0, 2.0), (4.0, 2.6), (16.0, 8.0))
    ]
    known = {
        ("pods", 4.0): KnownWorth(Ratio(2.0, 1.8, 2.2), "yours"),
        ("pods", 16.0): KnownWorth(Ratio(3.0, 2.5, 3.5), "authors'"),
    }
    said = answer(MeasuredSteps("train.py", "a card", steps), known)
    assert "1.54 (1.38 to 1.69)" in said
    assert "0.75 (0.62 to 0.88)" in said
    assert (
        "pods, n = 4 m pays most: a step is worth 2.00 steps of GRPO and takes 1.30 times" in said
    )
    assert "These may pay as much" not in said
    assert "yours: measured by pods compare" in said

    # Where 4 m is not worth its cost on the user's task, the authors' 16 m says nothing.
    poor = {**known, ("pods", 4.0): KnownWorth(Ratio(0.7, 0.6, 0.8), "yours")}
    assert "No size is shown to pay: stay with GRPO." in answer(MeasuredSteps("x", "", steps), poor)

    wide = {**known, ("pods", 16.0): KnownWorth(Ratio(3.0, 1.0, 9.0), "yours")}
    assert "These may pay as much: pods, n = 16 m." in answer(MeasuredSteps("x", "", steps), wide)

    unsure = {("pods", 4.0): KnownWorth(Ratio(1.4, 1.0, 1.9), "yours")}
    assert "it may not pay at all" in answer(MeasuredSteps("x", "", steps), unsure)
    low = {("pods", 4.0): KnownWorth(Ratio(1.2, 1.0, 1.4), "yours")}
    assert "No size is shown to pay: stay with GRPO." in answer(MeasuredSteps("x", "", steps), low)


def test_a_size_that_could_not_be_run_is_told_and_all_rows_have_the_cost_to_be_worth():
    steps = [
        MeasuredStep("grpo", 1.0, 8, {"update": 1.0}, steps=3),
        MeasuredStep("pods", 16.0, problem="out of memory"),
        MeasuredStep("grpo", 1.0, 32, {"update": 3.5}, steps=3),
    ]
    said = answer(MeasuredSteps("train.py", "", steps), known_worths([]))
    assert "pods, n = 16 m could not be run: out of memory" in said
    assert "grpo, all of n = 4 m" in said
    assert "pays above 3.50" in said


def test_worths_that_were_measured_on_the_users_task_stand_before_the_authors(tmp_path):
    assert sorted(authors_worths()) == [2, 4, 8, 16]
    measured = StepValue(Ratio(1.5, 1.2, 1.9), Ratio(1.3), None)
    write_worths(tmp_path, [MeasuredWorth("pods", "grpo", 4.0, measured)])
    known = known_worths(read_worths(tmp_path))
    assert known["pods", 4.0] == KnownWorth(Ratio(1.5, 1.2, 1.9), "yours")
    assert known["pods", 8.0].whose == "authors'"

    is_open = StepValue(Ratio(9.0, 3.0, float("inf")), Ratio(1.3), None)
    write_worths(tmp_path, [MeasuredWorth("pods", "grpo", 4.0, is_open)])
    assert read_worths(tmp_path)[0].value == is_open

    undefined = StepValue(None, Ratio(1.3), None, "grpo learned no more than noise")
    write_worths(tmp_path, [MeasuredWorth("pods", "grpo", 4.0, undefined)])
    assert known_worths(read_worths(tmp_path))["pods", 4.0].whose == "authors'"

    beside_another = MeasuredWorth("pods", "2-grpo", 4.0, measured)
    write_worths(tmp_path, [beside_another])
    assert read_worths(tmp_path) == [beside_another]
    assert known_worths(read_worths(tmp_path))["pods", 4.0].whose == "authors'"


@pytest.mark.parametrize("name", ["steps.json", "worth.json"])
def test_a_damaged_file_of_a_comparison_is_named(name, tmp_path, capsys):
    write_run(tmp_path / "grpo", n=2, arm="grpo")
    (tmp_path / name).write_text('{"steps": [{}], "methods": [{}], "of": "", "machine": ""}')
    assert main(["recommend", str(tmp_path)]) == 2
    assert f"{tmp_path / name} is damaged" in capsys.readouterr().err


# ---- logs


def test_runs_of_two_sizes_are_put_beside_each_other(tmp_path, capsys):
    write_run(tmp_path / "grpo", generate=1.0, update=1.0, n=2, arm="grpo")
    write_run(tmp_path / "pods", generate=1.6, update=1.0, n=8)
    said = said_of(tmp_path, capsys=capsys)
    assert "grpo, n = m 8 → 8 1 s — — 1 s 2 s 1.00" in said
    assert "pods, n = 4 m 32 → 8 1.6 s — — 1 s 2.6 s 1.30" in said
    assert (
        "pods, n = 4 m pays most: a step is worth 2.11 steps of GRPO and takes 1.30 times" in said
    )


def test_from_grpo_alone_costs_lie_between_two_extremes(tmp_path, capsys):
    # 1 s of generating and 1 s of updating: with 4 m at most (4 + 1) / 2 = 2.5 times as long
    write_run(tmp_path / "grpo", generate=1.0, update=1.0, n=2, arm="grpo")
    said = said_of(tmp_path, capsys=capsys)
    assert "Only GRPO was measured." in said
    assert "pods, n = 4 m 1.00 2.50 2.11 (1.81 to 2.45) authors' 0.84 2.11" in said


def test_without_a_step_of_grpo_costs_are_not_known(tmp_path, capsys):
    write_run(tmp_path / "pods")
    assert "No step of GRPO is among them" in said_of(tmp_path, capsys=capsys)


def test_what_verl_wrote_is_read_by_phase_without_its_first_step_and_without_saving():
    grpo, pods = (read_logs([DATA / f"{name}.jsonl"]).steps[0] for name in ("grpo", "pods"))
    lines = [json.loads(line) for line in (DATA / "pods.jsonl").read_text().splitlines()]
    data = [line["data"] for line in lines[1:]]
    assert (grpo.rollouts_per_row, grpo.rows) == (1.0, None)
    assert (pods.rollouts_per_row, pods.rows) == (2.0, 16)
    assert pods.steps == 3

    def mean(name):
        return sum(line[f"timing_s/{name}"] for line in data) / 3

    assert pods.seconds["generate"] == pytest.approx(mean("gen"))
    parts = mean("old_log_prob") + mean("ref") + mean("update_actor")
    assert pods.seconds["update"] == pytest.approx(parts)
    besides = mean("save_checkpoint") + mean("dump_rollout_generations")
    assert pods.total == pytest.approx(mean("step") - besides)


def test_what_verl_printed_says_the_same_as_its_file():
    assert read_logs([DATA / "pods-printed.log"]).steps == read_logs([DATA / "pods.jsonl"]).steps


def test_the_logs_of_verl_are_put_beside_each_other(capsys):
    said = said_of(DATA / "grpo.jsonl", DATA / "pods.jsonl", capsys=capsys)
    assert "grpo, n = m" in said
    assert "pods, n = 2 m 32 → 16" in said
    assert "authors'" in said


def test_a_run_of_trls_own_trainer_has_the_time_of_a_step_alone(tmp_path, capsys):
    log = [{"step": 1, "step_time": 9.0}, {"step": 2, "step_time": 2.0}, {"eval_loss": 1.0}]
    for step, logged in ((2, log[:2]), (3, [*log, {"step": 3, "step_time": 3.0}])):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": logged}))
    (step,) = read_logs([tmp_path]).steps
    assert (step.total, step.steps, step.rollouts_per_row) == (2.5, 2, 1.0)
    said = said_of(tmp_path, capsys=capsys)
    assert "Its log does not tell generating from updating" in said


def test_a_log_without_timed_steps_says_what_is_wanted(tmp_path, capsys):
    with pytest.raises(InvalidInputError, match="fewer than two steps with timing_s/step"):
        read_logs([DATA.parent / "README.md"])
    with pytest.raises(InvalidInputError, match="holds no run with timed steps"):
        read_logs([tmp_path])
    RunFolder(tmp_path).write_config({"arm": "pods", "seed": 0})
    assert main(["recommend", str(tmp_path)]) == 2
    assert "train until the log has a second line" in capsys.readouterr().err


# ---- a comparison


def test_what_a_comparison_measured_comes_first(tmp_path, capsys):
    write_run(tmp_path / "reported" / "pods" / "seed-0")
    (tmp_path / ANSWER).write_text("pods has 0.400 more reward than grpo\n")
    said = said_of(tmp_path, capsys=capsys)
    assert said.index("pods has 0.400 more reward") < said.index("n = 4 m")


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
    said = said_of(tmp_path, capsys=capsys)
    assert said.index("60 %") < said.index("n = 4 m")


def test_costs_that_were_measured_in_the_folder_of_a_comparison_stand_for_its_runs(
    tmp_path, capsys
):
    steps = [
        MeasuredStep("grpo", 1.0, 8, {"update": 1.0}, steps=3),
        MeasuredStep("pods", 4.0, 8, {"update": 1.1}, steps=3),
    ]
    MeasuredSteps("train.py", "a large card", steps).write(tmp_path)
    yours = StepValue(Ratio(1.8, 1.5, 2.2), Ratio(2.0), Ratio(0.9))
    write_worths(tmp_path, [MeasuredWorth("pods", "grpo", 4.0, yours)])
    said = said_of(tmp_path, capsys=capsys)
    assert "train.py on a large card" in said
    assert "1.80 (1.50 to 2.20) yours 1.64 (1.36 to 2.00)" in said  # over a cost of 1.1


# ---- memory


def test_runs_of_two_sizes_say_how_many_rows_of_a_pass_fit_into_a_memory(tmp_path, capsys):
    write_run(tmp_path / "a", peak=6.0, per_device_train_batch_size=8)
    # 2 GiB, and a half per row
    write_run(tmp_path / "b", peak=10.0, per_device_train_batch_size=16)
    said = said_of(tmp_path, "--memory", 24, capsys=capsys)
    assert "Within 24.00 GiB: up to 44 rows in a pass" in said
    assert "a prediction, by a line through runs with 8, 16" in said
    assert "Within 2.00 GiB: not even one row" in said_of(tmp_path, "--memory", 2, capsys=capsys)


def test_between_two_sizes_the_smaller_one_is_named_since_memory_bends_there(tmp_path, capsys):
    """TRL makes logits of 4,096 tokens at a time: before that limit each row takes more."""
    write_run(tmp_path / "a", peak=6.0, per_device_train_batch_size=8)
    write_run(tmp_path / "b", peak=10.0, per_device_train_batch_size=16)
    assert "up to 8 rows in a pass" in said_of(tmp_path, "--memory", 9.9, capsys=capsys)
    assert "up to 16 rows in a pass" in said_of(tmp_path, "--memory", 10, capsys=capsys)
    assert "up to 7 rows in a pass" in said_of(tmp_path, "--memory", 5.9, capsys=capsys)


def steps_with_peaks(*peaks: float | None) -> MeasuredSteps:
    """Steps of n = m, 2 m, 4 m, ... and of all rows of 4 m, with these peaks in GiB."""
    steps = [
        MeasuredStep(
            "grpo" if ratio == 1 else "pods",
            ratio,
            rows=8,
            seconds={"update": 1.0},
            steps=3 if peak is not None else 0,
            peak_memory=None if peak is None else peak * 2**30,
        )
        for ratio, peak in zip((1.0, 2.0, 4.0, 8.0, 16.0), peaks, strict=True)
    ]
    all_rows = MeasuredStep("grpo", 1.0, rows=32, steps=3, peak_memory=40 * 2**30)
    return MeasuredSteps(of="train.py", machine="", steps=[*steps, all_rows])


@pytest.mark.parametrize(
    ("peaks", "within", "says"),
    [
        ((20, 20, 20, 24, 40), 32, "up to n = 12 m (measured)"),  # 8 + 2 x n/m
        ((20, 20, 20, 24, 40), 44, "up to n = 18 m (a prediction, by a line through the peaks)"),
        ((20, 20, 20, 24, 40), 20, "up to n = 6 m (measured)"),
        ((20, 20, 20, 20.1, 20.2), 24, "n = 16 m and less, as measured. The update decides"),
        ((20, 20, 20, 20, None), 24, "n = 8 m and less, as measured"),
        ((20, 20, 20, 24, 40), 10, "not even grpo with n = m, whose update takes 20"),
        ((None, None, None, None, None), 10, "these steps can't say"),
    ],
)
def test_steps_of_a_script_say_how_many_rollouts_fit_into_a_memory(peaks, within, says):
    assert says in rollouts_in_words(steps_with_peaks(*peaks), within * 2**30)


def in_passes(*peaks: float | None, problem: str = "", m: int = 4) -> MeasuredSteps:
    """GRPO's step in passes of 8 and of 4 rows, with these peaks in GiB."""
    steps = [
        MeasuredStep(
            "grpo",
            1.0,
            rows=8,
            seconds={"update": 1.0},
            steps=3 if peak is not None else 0,
            peak_memory=None if peak is None else peak * 2**30,
            rows_of_pass=rows if peak is not None else None,
            rows_of_prompt=m,
            problem=problem,
        )
        for rows, peak in zip((8, 4), peaks, strict=True)
    ]
    return MeasuredSteps("train.py", "", steps[:1], in_other_passes=steps[1])


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        # 2 GiB and a half for each row: 44 rows, which is 5.5 times as many as now
        (in_passes(6, 4), "m: up to 44 rows in a pass (per_device_train_batch_size; a prediction,"),
        (in_passes(6, 4), "by a line through passes with 4, 8), which is m = 22 with as many"),
        (in_passes(6, 4, m=8), "which is m = 44"),
        (in_passes(60, 40), "m: not even one row in a pass"),
        (in_passes(6, 6), "m: passes of 8 rows took no more than those of 4"),
        (in_passes(6, 5.99), "m: passes of 8 rows took no more than those of 4"),
        (in_passes(6, None, problem="3 passes of 7"), "as it takes passes of two sizes. 3 passes"),
    ],
)
def test_a_step_in_passes_of_two_sizes_says_how_large_m_may_be(steps, says):
    assert says in rows_in_words(steps, 24 * 2**30)


@pytest.mark.parametrize(
    ("given", "rows", "passes", "at_once"),
    [
        ({"per_device_train_batch_size": 8}, 4, 2, None),
        ({}, 4, 2, None),
        ({"gradient_accumulation_steps": 3, "steps_per_generation": 6}, 4, 6, 12),
        ({"per_device_train_batch_size": 3, "gradient_accumulation_steps": 4}, 6, 2, None),
    ],
)
def test_other_passes_have_the_same_rows(given, rows, passes, at_once):
    fields = GivenSettings(given).of_sizes(StepSizes(1, other_passes=True))
    assert fields["per_device_train_batch_size"] == rows
    assert fields["gradient_accumulation_steps"] == passes
    assert fields.get("steps_per_generation") == at_once


def test_one_pass_of_three_rows_has_no_other_size():
    with pytest.raises(InvalidInputError, match="1 passes of 3 rows"):
        GivenSettings({"per_device_train_batch_size": 3}).of_sizes(StepSizes(1, other_passes=True))


def test_runs_of_one_size_cant_say_how_memory_grows(tmp_path, capsys):
    write_run(tmp_path / "a", per_device_train_batch_size=8)
    write_run(tmp_path / "b", per_device_train_batch_size=8)
    said = said_of(tmp_path, "--memory", 24, capsys=capsys)
    assert "these runs can't say, as it takes runs with different" in said


# ---- a script

SCRIPT = """
import sys
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer


def length(completions, **columns):
    limit = 10 if len(completions) <= ROLLOUTS else 1 / 0
    return [float(len(c) % 3) for c in completions]


if __name__ == "__main__":
    args = GRPOConfig(
        "out", per_device_train_batch_size=8, num_generations=4, max_completion_length=8,
        max_steps=50, use_cpu=True, bf16=False, report_to="none",
    )
    prompts = Dataset.from_list([{"prompt": f"{a}+1"} for a in range(64)])
    GRPOTrainer(sys.argv[1], length, args=args, train_dataset=prompts).train()
"""


def test_a_script_is_run_at_each_size_and_its_costs_are_kept(
    tiny_model, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    # 8 rows of 2 prompts: 16 m generates 128 rollouts, where the reward function fails
    (tmp_path / "train.py").write_text(SCRIPT.replace("ROLLOUTS", "64"))
    words = ["recommend", f"train.py {tiny_model}", "--steps", "1", "--memory", "64"]
    assert main(words) == 0
    said = capsys.readouterr().out

    measured = MeasuredSteps.read(tmp_path / "pods-compare")
    assert measured.of == "train.py"
    sizes = [(step.rollouts_per_row, step.rows) for step in measured.steps if step.steps]
    assert sizes == [(1.0, 8), (2.0, 8), (4.0, 8), (8.0, 8), (1.0, 32)]
    for step in measured.steps[:4]:
        assert set(step.seconds) == {"generate", "score", "select", "update"}
        assert step.total > 0
        assert step.peak_memory > 0
    assert "ZeroDivisionError" in measured.steps[4].problem
    assert f"pods, n = 16 m could not be run: {measured.steps[4].problem}" in said
    assert "grpo, all of n = 4 m" in said

    other = measured.in_other_passes
    assert (other.rows, other.rows_of_pass, other.rows_of_prompt) == (8, 4, 4)
    assert (measured.grpo.rows, measured.grpo.rows_of_pass) == (8, 8)
    assert "Within 64.00 GiB: " in said
    assert "\nm: " in said
    assert not (tmp_path / "out").exists()
    assert [
        path.name for path in (tmp_path / "pods-compare" / "steps").iterdir() if path.is_dir()
    ] == []


def test_steps_are_measured_into_a_folder_by_one_command_at_a_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "pods-compare" / "steps" / "1-some").mkdir(parents=True)
    with FileLock(tmp_path / "pods-compare" / "steps" / ".lock"):
        assert main(["recommend", "train.py"]) == 2
    assert "another `pods recommend` is at work on pods-compare/steps" in capsys.readouterr().err
    assert (tmp_path / "pods-compare" / "steps" / "1-some").is_dir()


def test_a_script_that_fails_as_it_is_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise ValueError('no data here')\n")
    assert main(["recommend", "train.py"]) == 2
    assert "no data here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.py"], "there is no script none.py"),
        (["a.py", "b"], "Put a script and its own arguments into quotes"),
        (["runs", "--steps", "3"], "--steps is for a script"),
        (["'a.py"], "is no command"),
        (["train.py", "--gpu", "7"], "--gpu 7: this machine has no GPU that torch can use"),
        (["train.py", "--gpu", "0,1"], "--gpu 0: this machine has no GPU"),
    ],
)
def test_a_wrong_command_gets_one_plain_sentence(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["recommend", *words]) == 2
    assert says in capsys.readouterr().err
