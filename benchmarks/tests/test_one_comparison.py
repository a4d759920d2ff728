"""The comparison: questions, protocol, raw files, intervals, advice, page, and a real run."""

import itertools
import json
import math
import multiprocessing
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks.comparison import advice, front_tables, intervals, one_run, running
from benchmarks.comparison.__main__ import main
from benchmarks.comparison.foretold import foretold, named_by
from benchmarks.comparison.model import WARM_STARTS, lessons
from benchmarks.comparison.outcomes import (
    Curve,
    compared,
    curve,
    pass_at,
    steps_at_equal_rollouts,
    time_to_level,
)
from benchmarks.comparison.page import write_page
from benchmarks.comparison.protocol import (
    FILE,
    ON_GPU,
    SAME_BATCH,
    SAME_BATCH_AGAIN,
    PlannedRun,
    Protocol,
    read_protocol,
)
from benchmarks.comparison.protocol_page import fill, step_of
from benchmarks.comparison.questions import OPERATIONS, Questions, guessing, rightly, sloppily
from benchmarks.comparison.records import EARLIER, FOLDER, Records, Reported
from benchmarks.comparison.set_tables import level_of
from podslab.models.tiny.tokenizer import build_tokenizer
from podslab.training.spec import parse
from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.rollout_log.run_folder import RunFolder

PROTOCOL = read_protocol()
CPU = "a processor"


# --- questions ------------------------------------------------------------------------------------


@pytest.fixture(params=PROTOCOL.sets)
def task(request):
    return Questions(kinds=PROTOCOL.sets[request.param]["kinds"], **PROTOCOL.values["questions"])


def test_questions_are_distinct_and_the_splits_have_none_in_common(task):
    normalised = {}
    for split in task.splits:
        keys = []
        for row in task.load(split):
            words = "".join(c if c.isdigit() else " " for c in row["question"]).split()
            # Operands in any order are the same question, of these kinds and of these alone.
            numbers = words if row["kind"] == "difference" else sorted(words)
            keys.append((row["kind"], *numbers))
        assert len(keys) == PROTOCOL.values["questions"][f"{split}_size"]
        assert len(set(keys)) == len(keys)
        normalised[split] = set(keys)

    assert min(len(normalised[split]) for split in ("tuning", "test")) >= 500
    assert not normalised["train"] & normalised["tuning"]
    assert not normalised["train"] & normalised["test"]
    assert not normalised["tuning"] & normalised["test"]


def test_answers_are_right_by_another_computation(task):
    for row in task.load("test"):
        if row["kind"] == "largest":
            wanted = max(row["question"].split()[1:])
        else:
            # `eval` of our own making: numbers and signs.
            wanted = str(eval(row["question"]))
        assert row["answer"] == wanted, row


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_line_of_the_working_is_true(name):
    operation = OPERATIONS[name]
    draw = random.Random(0)
    for _ in range(100):
        numbers = operation.numbers(draw, 4)
        lines, _ = operation.lines(numbers, rightly)
        for line in lines:
            # "7+5=12" as Python has it; a borrowed ten makes "15-7=8" true as it stands.
            assert eval(line.replace("=", "==")), (numbers, line)


def test_right_is_what_stands_between_the_answer_tags_and_nothing_else():
    task = Questions(kinds={"sum": [1]})
    row = {"question": "1+2", "answer": "3"}
    assert task.grade("<think>1+2=3</think><answer>3</answer>", row).answer
    assert task.grade("<answer> 3</answer>", row).answer
    assert not task.grade("<answer>3 or 4</answer>", row).answer
    assert not task.grade("<answer>4</answer>", row).answer
    assert not task.grade("3", row).answer


@pytest.mark.parametrize("name", PROTOCOL.sets)
def test_right_working_fits_and_that_of_one_set_takes_60_to_200_tokens(name):
    tokenizer = build_tokenizer()
    own = PROTOCOL.sets[name]
    draw = random.Random(0)
    lengths = []
    for kind, digits in own["kinds"].items():
        operation = OPERATIONS[kind]
        for _ in range(100):
            numbers = operation.numbers(draw, draw.choice(digits))
            working = operation.completion(numbers, rightly) + tokenizer.eos_token
            lengths.append(len(tokenizer(working)["input_ids"]))

    assert max(lengths) <= own["max_completion_length"]
    if name == "steps":
        assert min(lengths) >= 60
        assert max(lengths) <= 200


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_sloppy_writer_is_wrong_in_facts_of_its_own(name):
    operation = OPERATIONS[name]
    draw = random.Random(0)
    asked = [operation.numbers(draw, 3) for _ in range(300)]
    right = [operation.completion(numbers, rightly) for numbers in asked]

    write = sloppily(name, operation.slips, draw)
    sloppy = [operation.completion(numbers, write) for numbers in asked]
    wrong = sum(a != b for a, b in zip(sloppy, right, strict=True))
    assert 0.2 < wrong / len(asked) < 0.98

    never_slips = sloppily(name, 0.0, draw)
    assert [operation.completion(numbers, never_slips) for numbers in asked] == right


@pytest.mark.parametrize("stage", WARM_STARTS)
def test_the_model_was_shown_training_questions_alone_of_all_lengths(stage):
    shown = [
        lesson["prompt"].strip() for lesson in itertools.islice(lessons(stage.sloppiness), 5000)
    ]
    assert len(set(shown)) > 1000

    held_out = set()
    longest = []
    for own in PROTOCOL.sets.values():
        task = Questions(kinds=own["kinds"], **PROTOCOL.values["questions"])
        for split in ("tuning", "test"):
            rows = task.load(split)
            held_out |= {row["question"] for row in rows}
        longest.append(max(len(row["question"]) for row in rows))
    assert not set(shown) & held_out
    assert max(len(question) for question in shown) == max(longest)


def test_guessing_the_largest_of_four_is_right_once_in_four():
    assert guessing(Questions(kinds={"largest": [3]}), "test")["informed"] == 0.25


# --- protocol -------------------------------------------------------------------------------------


def test_the_protocol_names_every_arm_of_the_issue_with_its_sizes():
    sizes = {}
    for run in PROTOCOL.runs:
        settings = PROTOCOL.settings_of(run, 1e-4)
        training = parse({**settings, "model_name_or_path": "tiny"}).training
        assert training.skip_zero_advantage  # wherever passes can be spared
        sizes[run.arm] = (
            training.num_rollouts,
            training.num_generations,
            training.downsampling_rule,
            training.advantage_baseline,
        )
    assert {arm: found[:2] for arm, found in sizes.items()} == {
        "grpo-8": (8, 8),
        "grpo-16": (16, 16),
        "2-grpo": (2, 2),
        "grpo-ga": (8, 8),
        "grpo-8x4": (8, 8),
        "dynamic-sampling": (8, 2),
        "pods": (32, 8),
        "pods-group": (32, 8),
        "max_contrast": (4, 1),
        "random-row": (4, 1),
        "cppo": (16, 4),
        "rejection-sampling": (4, 1),
    }
    assert sizes["pods"][2:] == ("max_variance", "kept")
    assert sizes["pods-group"][2:] == ("max_variance", "group")
    assert sizes["max_contrast"][2:] == ("max_contrast", "group")


def test_all_arms_are_tuned_alike_and_on_other_questions_and_seeds_than_are_reported():
    tuning = [run for run in PROTOCOL.runs if run.stage == "tuning"]
    tried = {}
    for run in tuning:
        tried.setdefault((run.set, run.arm), set()).add((run.rate, run.seed))
    assert set(tried) == {
        (name, arm) for arm in PROTOCOL.arms for name in PROTOCOL.sets_of_arm(arm)
    }
    for arm in PROTOCOL.arms_of("reported"):
        assert PROTOCOL.sets_of_arm(arm) == list(PROTOCOL.sets)
    (alike,) = {frozenset(one) for one in tried.values()}
    assert len(alike) == 4 * 2

    assert PROTOCOL.stage("tuning")["questions"] == "tuning"
    assert PROTOCOL.stage("tuning")["seconds"] == PROTOCOL.stage("reported")["seconds"]
    seeds = {stage: PROTOCOL.stage(stage)["seeds"] for stage in (*PROTOCOL.stages, ON_GPU)}
    assert len({seed for own in seeds.values() for seed in own}) == sum(map(len, seeds.values()))
    assert len(seeds["reported"]) >= 8
    assert PROTOCOL.stage("long")["seconds"] == 4 * PROTOCOL.stage("reported")["seconds"]


def test_every_run_has_a_name_of_its_own_and_the_plan_takes_20_core_hours_at_most():
    assert len(PROTOCOL.by_name) == len(PROTOCOL.runs) + len(PROTOCOL.gpu_runs)
    hours = 0.0
    for run in PROTOCOL.runs:
        factor = PROTOCOL.values["cost"]["times_training"][run.stage]
        assert factor <= 1.6
        hours += PROTOCOL.stage(run.stage)["seconds"] * factor / 3600
    assert hours <= 20


def test_the_tables_of_the_protocols_page_are_those_of_the_file():
    page = (FOLDER / "protocol.md").read_text(encoding="utf-8")
    assert fill(page, PROTOCOL) == page


# --- raw files ------------------------------------------------------------------------------------


@pytest.fixture
def small() -> Protocol:
    """A protocol of one set, three arms and three seeds."""
    values = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    values["sets"] = {"easy": values["sets"]["easy"]}
    kept = ("grpo-8", "max_contrast", "rejection-sampling")
    values["arms"] = {arm: values["arms"][arm] for arm in kept}
    values["stages"]["tuning"] |= {"rates": [1e-4, 1e-3], "seeds": [1, 2]}
    values["stages"]["reported"] |= {"seeds": [101, 102, 103], "arms": list(kept)}
    values["stages"]["batch"] |= {"seeds": [401, 402, 403], "sets": ["easy"], "arms": list(kept)}
    values["stages"]["batch"] |= {"reference": "rejection-sampling"}
    values["stages"]["long"] |= {"seeds": [201, 202, 203], "sets": ["easy"], "arms": list(kept)}
    values["stages"]["gpu"] |= {"seeds": [301, 302, 303], "sets": ["easy"], "arms": list(kept)}
    for stage in ("retuning", SAME_BATCH_AGAIN):
        del values["stages"][stage]
    values["advice"]["sets_for_all"] = 1
    return Protocol(values, digest="small")


@pytest.fixture
def records(small, tmp_path) -> Records:
    return Records(small, tmp_path)


def result_of(protocol, run, rate, *, end=0.5, pass_k=(0.5, 0.5), jitter=0.0):
    """What a run's file would hold: right answers on a straight line from 0.2 to `end`."""
    schedule = protocol.schedule_of(run.stage, run.set, run.arm)
    draw = np.random.default_rng(run.seed)
    seconds = float(protocol.stage(run.stage)["seconds"])
    measured = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        level = 0.2 + share * (end - 0.2) + jitter * draw.normal()
        right = "".join("1" if place < round(500 * level) else "0" for place in range(500))
        point = {
            "seconds": seconds * share,
            "step": round(100 * share),
            "rollouts": round(1000 * share),
            "rows": round(1000 * share),
            "greedy": right,
            "length": 3.0,
        }
        if share in (0.0, 1.0):
            solved = round(128 * pass_k[int(share)])
            point |= {
                "right": [schedule["samples"]] * solved + [0] * (128 - solved),
                "distinct": [4] * 128,
                "entropy": [0.5] * 128,
                "sampled_length": 3.0,
            }
        measured.append(point)
    return {
        "run": run.name,
        "state": "ended",
        "seconds": seconds,
        "rate": rate,
        "settings": protocol.settings_of(run, rate),
        "schedule": schedule,
        "probe_seconds": 0.1,
        "has_not_diverged": True,
        "machine": {"cpu": CPU, "cores": 2},
        "measured": measured,
        "steps": 100,
        "phases": {"generate": 30.0, "score": 1.0, "select": 1.0, "update": 28.0},
        "g_over_u": 0.9,
        "teaching_prompts": 0.5,
        "teaching_rows": 0.5,
        "mean_over_run": (0.2 + end) / 2,
    }


def make(records, run, machine=CPU, rate=None, **outcome):
    """As a run that is made and ends."""
    rate = run.rate or rate or 1e-3
    number = records.begin(run, started="2026-01-01T00:00:00", machine=machine, commit="c")
    records.end(run, number, result_of(records.protocol, run, rate, **outcome))


def make_all(records, **outcomes):
    """All runs; of the rates 1e-3 is the better one in tuning."""
    for run in records.protocol.runs:
        if run.stage == "tuning":
            make(records, run, end=0.6 if run.rate == 1e-3 else 0.4)
        else:
            make(records, run, **outcomes.get(run.arm.replace("-", "_"), {}))


def reported_of(records) -> Reported:
    return Reported(records.protocol, records.attempts())


def test_a_run_that_the_protocol_does_not_name_is_neither_begun_nor_reported(records):
    other = PlannedRun("reported", "easy", "grpo-8", 999)
    with pytest.raises(UnknownNameError, match="names no run 'reported_easy_grpo-8_999'"):
        records.begin(other, started="", machine=CPU, commit="")

    line = {"run": other.name, "attempt": 1, "started": "", "machine": CPU, "commit": ""}
    records.ledger.write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(UnknownNameError, match="names no run"):
        write_page(records)


def test_a_raw_file_that_the_ledger_does_not_list_is_refused(records, small):
    run = small.runs[0]
    records.end(run, 1, result_of(small, run, 1e-4))
    with pytest.raises(InvalidInputError, match="of no attempt in"):
        records.attempts()


def test_an_attempt_that_another_process_makes_during_the_look_is_of_the_ledger(
    records, monkeypatch
):
    look = Path.glob

    def look_while_another_begins_and_ends(folder, pattern):
        yield from look(folder, pattern)
        make(records, records.protocol.runs[1])

    make(records, records.protocol.runs[0])
    with monkeypatch.context() as while_looking:
        while_looking.setattr(Path, "glob", look_while_another_begins_and_ends)
        states = [attempt.state for attempt in records.attempts()]
    assert states == ["ended", "ended"]  # of the line that came after the look, its file too

    read = Records._lines
    with monkeypatch.context() as while_reading:

        def read_while_another_begins_and_ends(self):
            lines = read(self)
            while_reading.undo()
            make(records, records.protocol.runs[2])
            return lines

        while_reading.setattr(Records, "_lines", read_while_another_begins_and_ends)
        assert len(records.attempts()) == 2  # the third is seen by the next look
    assert len(records.attempts()) == 3


def test_a_run_with_other_settings_than_the_protocols_is_refused(records, small):
    run = small.runs[0]
    number = records.begin(run, started="", machine=CPU, commit="")
    result = result_of(small, run, run.rate)
    result["settings"]["temperature"] = 0.5
    records.end(run, number, result)
    with pytest.raises(InvalidInputError, match="temperature"):
        records.attempts()


def test_a_run_of_an_earlier_protocol_is_listed_and_made_again(records, small):
    run = small.runs[0]
    values = json.loads(json.dumps(dict(small.values)))
    values["settings"]["temperature"] = 0.5
    earlier = Records(Protocol(values, digest="earlier"), records.folder)
    make(earlier, run)
    attempts = records.attempts()
    assert [attempt.state for attempt in attempts] == [EARLIER]
    assert run in Reported(small, attempts).missing(CPU, PROTOCOL.stages)
    text = write_page(records).read_text(encoding="utf-8")
    assert f"| {run.name} | 1 | 2026-01-01T00:00:00 | {CPU} | {EARLIER} |" in text
    assert "| c | earlier | 1 |" in text

    make(records, run)
    assert records.attempts()[1].state == "ended"


def test_the_order_within_a_block_is_drawn_and_the_same_every_time():
    orders = {}
    for run in PROTOCOL.runs:
        if run.stage == "reported":
            orders.setdefault((run.set, run.seed), []).append(run.arm)
    arms = sorted(PROTOCOL.arms_of("reported"))
    assert all(sorted(order) == arms for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) > len(orders) / 2
    assert read_protocol().runs == PROTOCOL.runs


def test_a_reported_run_at_another_rate_than_tuning_chose_is_refused(records):
    make_all(records)
    run = next(run for run in records.protocol.runs if run.stage == "reported")
    reported_of(records).check_rates()
    number = records.begin(run, started="", machine="another", commit="")
    records.end(run, number, result_of(records.protocol, run, 1e-4))
    with pytest.raises(InvalidInputError, match="tuning chose"):
        reported_of(records).check_rates()


def _begin_and_wait(records, run, begun):
    records.begin(run, started="2026-01-01T00:00:00", machine=CPU, commit="c")
    begun.set()
    signal.pause()


def test_a_killed_run_is_listed_and_made_again(records, small):
    run = small.runs[0]
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    process = context.Process(target=_begin_and_wait, args=(records, run, begun))
    process.start()
    assert begun.wait(60)
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join()

    (attempt,) = records.attempts()
    assert (attempt.run, attempt.state) == (run.name, "stopped")
    assert run in reported_of(records).missing(CPU, PROTOCOL.stages)
    assert f"| {run.name} | 1 |" in write_page(records).read_text(encoding="utf-8")

    make(records, run)
    assert [attempt.number for attempt in records.attempts()] == [1, 2]
    assert run not in reported_of(records).missing(CPU, PROTOCOL.stages)


def test_a_block_that_another_machine_began_is_made_as_a_whole_on_this_one(records, small):
    block = [run for run in small.runs if run.block == ("reported", "easy", "101", "")]
    make(records, block[0], machine="an old one")
    make(records, block[1])
    assert reported_of(records).result(block[0]) is None
    assert [run for run in reported_of(records).missing(CPU, PROTOCOL.stages) if run in block] == [
        block[0],
        block[2],
    ]

    make(records, block[0])
    make(records, block[2])
    found = reported_of(records)
    assert found.machine_of(block[0].block) == CPU
    assert not set(block) & set(found.missing("a third one", PROTOCOL.stages))


def test_a_run_that_fails_twice_is_given_up_and_its_arm_is_not_judged(records):
    make_all(records)
    small = records.protocol
    run = PlannedRun("reported", "easy", "max_contrast", 101)
    # As if it had never ended: its file says that it failed, and so does that of a second attempt.
    failed = {"run": run.name, "state": "failed", "error": "no memory"}
    records.end(run, 1, failed)
    assert run in reported_of(records).missing(CPU, PROTOCOL.stages)
    number = records.begin(run, started="", machine=CPU, commit="")
    records.end(run, number, failed)

    found = reported_of(records)
    assert run not in found.missing(CPU, PROTOCOL.stages)
    assert advice.verdicts(found, "easy")["max_contrast"].word == advice.UNKNOWN
    assert advice.verdicts(found, "easy")["rejection-sampling"].word != advice.UNKNOWN
    assert advice.general_advice(found) is None
    assert small.runs


def test_tuning_chooses_the_rate_with_most_right_over_the_run(records):
    assert reported_of(records).chosen_rate("easy", "grpo-8") is None
    make_all(records)
    assert reported_of(records).chosen_rate("easy", "grpo-8") == 1e-3


# --- intervals ------------------------------------------------------------------------------------


def test_an_interval_by_t_is_that_of_the_textbook():
    # Mean 2, deviation 1, three seeds: 2 -+ 4.3027 x 1 / sqrt(3).
    found = intervals.difference(np.array([[1.0], [2.0], [3.0]]))
    half = 4.302653 / math.sqrt(3)
    assert found.low == pytest.approx(2 - half, abs=1e-5)
    assert found.high == pytest.approx(2 + half, abs=1e-5)


def test_the_bootstrap_sees_questions_that_seeds_have_in_common():
    # All seeds agree that half of the questions gain 1: between seeds there is no spread.
    gains_S_Q = np.tile([0.0, 1.0] * 50, (8, 1))
    found = intervals.difference(gains_S_Q)
    assert (found.low, found.high) == (0.5, 0.5)
    # Of 100 questions the deviation of the mean is 0.5 / 10, and 1.96 of it 0.098.
    assert found.wide_low == pytest.approx(0.402, abs=0.02)
    assert found.wide_high == pytest.approx(0.598, abs=0.02)


def test_holm_adjusts_as_by_hand():
    # Sorted .005, .02, .04, .3 times 4, 3, 2, 1, and never below the one before.
    assert intervals.holm([0.04, 0.3, 0.005, 0.02]) == pytest.approx([0.08, 0.3, 0.02, 0.06])


def test_a_run_that_never_gets_there_stays_in_the_survival_curve():
    assert intervals.not_there_yet([30, 15, math.inf], 45, [10, 15, 30, 45]) == pytest.approx(
        [1, 2 / 3, 1 / 3, 1 / 3]
    )


def test_a_level_is_reached_where_the_line_between_two_measurements_crosses_it(small):
    # From 20 % at 0 s to 60 % at 45 s, measured every 11.25 s.
    result = result_of(small, PlannedRun("reported", "easy", "grpo-8", 101), 1e-3, end=0.6)
    assert time_to_level(result, 0.35) == pytest.approx(1.5 * 11.25)
    assert time_to_level(result, 0.2) == 0.0
    assert time_to_level(result, 0.61) == math.inf


def test_pass_at_k_draws_k_of_the_samples(small):
    result = result_of(small, PlannedRun("reported", "easy", "grpo-8", 101), 1e-3)
    # Of 16 samples of one question 4 are right, and of another one all.
    result["measured"][-1]["right"] = [4, 16]
    assert pass_at(result, 1) == pytest.approx((4 / 16 + 1) / 2)
    # Both of two are wrong with 12/16 x 11/15.
    assert pass_at(result, 2) == pytest.approx((1 - 12 * 11 / (16 * 15) + 1) / 2)
    assert pass_at(result, 16) == 1.0


def test_a_mean_over_a_run_is_the_area_under_its_line():
    # From 0 to 1 within 10 s, then level until 30 s: (5 + 20) / 30; until 20 s: (5 + 10) / 20.
    line = Curve(np.array([0.0, 10.0, 30.0]), np.array([[0.0], [1.0], [1.0]]))
    assert line.mean_until(30.0) == pytest.approx([25 / 30])
    assert line.mean_until(20.0) == pytest.approx([15 / 20])
    assert line.value(5.0) == pytest.approx([0.5])


def test_runs_are_compared_where_the_one_with_fewer_rollouts_ends(small):
    run = PlannedRun("reported", "easy", "grpo-8", 101)
    slow = result_of(small, run, 1e-3, end=0.6)
    fast = result_of(small, run, 1e-3, end=0.6)
    for point in fast["measured"]:
        point["rollouts"] *= 2
    # At 1000 rollouts the fast one is half way: 0.4 beside 0.6.
    by_rollouts = compared([slow], [fast], axis="rollouts")
    assert by_rollouts.mean() == pytest.approx(0.2)
    assert compared([slow], [fast]).mean() == 0
    # Both have the same curve by rollouts, and the fast one has half as many measurements of it.
    for run in (slow, fast):
        for point in run["measured"]:
            solved = round(128 * (1 - math.exp(-point["rollouts"] / 400)))
            point["greedy"] = "1" * solved + "0" * (128 - solved)
    over_run = compared([slow], [fast], axis="rollouts", over_run=True)
    assert over_run.mean() == pytest.approx(0.0, abs=0.02)
    own_places = curve(slow, "greedy", "rollouts").mean_until(1000)
    assert own_places.mean() - curve(fast, "greedy", "rollouts").mean_until(1000).mean() > 0.02

    assert steps_at_equal_rollouts(slow, fast) == (100, 50)
    assert curve(fast, "pass_k", "rollouts").at_T.tolist() == [0, 2000]


def test_the_entropy_of_four_different_answers_is_log_4():
    assert one_run.entropy_of(["1", "2", "3", "4"]) == pytest.approx(math.log(4))
    assert one_run.entropy_of(["1"] * 16) == 0


# --- advice ---------------------------------------------------------------------------------------


def test_the_arm_that_is_surely_better_is_advised(records):
    make_all(records, max_contrast={"end": 0.8}, rejection_sampling={"end": 0.21})
    found = reported_of(records)
    words = {arm: verdict.word for arm, verdict in advice.verdicts(found, "easy").items()}
    assert words == {"max_contrast": advice.BETTER, "rejection-sampling": advice.WORSE}
    assert advice.advice(found, "easy").arm == "max_contrast"
    assert advice.general_advice(found) == "max_contrast"


def test_nothing_is_advised_before_all_long_runs_are_there(records):
    make_all(records, max_contrast={"end": 0.8})
    for file in (records.folder / "raw").glob("long_easy_max_contrast_201*"):
        file.unlink()
    found = reported_of(records)
    assert not advice.advice(found, "easy").is_complete
    assert advice.general_advice(found) is None


def test_an_arm_that_was_not_run_long_is_not_advised_to_all(small, tmp_path):
    small.values["stages"]["long"]["arms"] = ["grpo-8", "max_contrast"]
    records = Records(small, tmp_path)
    make_all(records, rejection_sampling={"end": 0.8})
    found = advice.advice(reported_of(records), "easy")
    assert (found.arm, found.is_complete, found.is_run_long) == ("rejection-sampling", True, False)
    assert advice.general_advice(reported_of(records)) == "grpo-8"


def test_a_difference_too_small_to_be_of_use_is_none(records):
    # 0.515 beside 0.5 at the end is 0.0075 over the run, less than a point.
    make_all(records, max_contrast={"end": 0.515})
    found = reported_of(records)
    assert advice.verdicts(found, "easy")["max_contrast"].word == advice.UNDECIDED
    assert advice.advice(found, "easy").arm == "grpo-8"
    assert advice.general_advice(found) == "grpo-8"


def test_what_seeds_disagree_on_is_no_difference(records):
    for run in records.protocol.runs:
        gain = {101: 0.4, 102: -0.3, 103: 0.2}.get(run.seed, 0.0)
        if run.stage == "tuning":
            make(records, run)
        else:
            make(records, run, rate=1e-4, end=0.5 + gain * (run.arm == "max_contrast"))
    found = reported_of(records)
    assert advice.verdicts(found, "easy")["max_contrast"].word == advice.UNDECIDED
    assert "max_contrast" in advice.advice(found, "easy").as_good


@pytest.mark.parametrize(
    ("end", "is_lost"),
    [(0.60, False), (0.578125, False), (0.5625, True)],  # of 0.6015625 at the start: 77 of 128
)
def test_an_arm_that_loses_3_points_of_pass_at_16_is_for_short_budgets_only(records, end, is_lost):
    steady = {"pass_k": (0.6015625, 0.6015625)}
    make_all(
        records,
        grpo_8=steady,
        max_contrast=steady,
        rejection_sampling={"end": 0.8, "pass_k": (0.6015625, end)},
    )
    found = reported_of(records)
    lost = {"rejection-sampling": ["easy"]} if is_lost else {}
    assert advice.for_short_budgets_only(found) == lost
    given = advice.advice(found, "easy")
    assert given.arm == ("grpo-8" if is_lost else "rejection-sampling")
    assert given.short_only == (["rejection-sampling"] if is_lost else [])


@pytest.mark.parametrize(
    ("ratio", "best", "expected"),
    [
        (0.9, "max_contrast", ("max_contrast", 1, True)),
        (0.9, "rejection_sampling", ("max_contrast", 3, False)),
        (1.1, "max_contrast", ("grpo-8", 2, False)),
    ],
)
def test_what_recommend_foretold_stands_beside_what_was_found(records, ratio, best, expected):
    ends = {"grpo_8": {"end": 0.5}, "max_contrast": {"end": 0.45}, best: {"end": 0.8}}
    make_all(records, **ends)
    for file in (records.folder / "raw").glob("tuning_*"):
        result = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**result, "g_over_u": ratio}), encoding="utf-8")

    found = foretold(reported_of(records), "easy")
    assert (found.arm, found.place, found.is_as_good) == expected
    assert f"| easy | {ratio:.2f} | {expected[0]} |" in write_page(records).read_text("utf-8")


def test_nothing_is_said_of_the_foretold_while_nothing_is_advised(records):
    make_all(records, max_contrast={"end": 0.8})
    for file in (records.folder / "raw").glob("long_*"):
        file.unlink()
    found = foretold(reported_of(records), "easy")
    assert (found.place, found.is_as_good) == (1, None)


def test_what_recommend_named_when_the_protocol_was_written_stays():
    assert [named_by(ratio, "grpo-8") for ratio in (0.5, 0.99, 1.0, 2.0)] == [
        "max_contrast",
        "max_contrast",
        "grpo-8",
        "grpo-8",
    ]


def test_where_nothing_is_better_the_reference_is_named_with_what_is_known_of_it(records):
    make_all(records, grpo_8={"pass_k": (0.5, 0.25)})
    found = advice.advice(reported_of(records), "easy")
    assert (found.arm, found.is_shown_better, found.is_for_short_budgets) == (
        "grpo-8",
        False,
        True,
    )
    text = write_page(records).read_text(encoding="utf-8")
    assert "grpo-8 (none was shown to be better; itself for short budgets only)" in text


def test_an_arm_at_the_bound_of_variety_is_said_to_be_there(records):
    # As last measured rejection-sampling is 4 of 128 below, 3.1 points; on the way there less.
    make_all(records, rejection_sampling={"pass_k": (0.5, 60 / 128)})
    for file in (records.folder / "raw").glob("long_*_rejection-sampling_*"):
        result = json.loads(file.read_text(encoding="utf-8"))
        result["measured"][-1]["seconds"] *= 1.1  # a step that took long
        file.write_text(json.dumps(result), encoding="utf-8")
    text = write_page(records).read_text(encoding="utf-8")
    assert "rejection-sampling is at the bound: -2.8" in text
    assert "-3.125000 as last measured, which would count as lost." in text


def test_an_advised_arm_that_gains_no_more_than_its_batch_is_named_with_that(records):
    # The reference of the stage batch is an arm that generates as many rollouts at once.
    make_all(records, max_contrast={"end": 0.8}, rejection_sampling={"end": 0.79})
    found = reported_of(records)
    assert advice.advice(found, "easy").arm == "max_contrast"
    beside = advice.beside_the_same_batch(found, "easy", "max_contrast")
    assert beside.word == advice.UNDECIDED
    assert beside.over_run.mean == pytest.approx(0.005, abs=0.0005)
    assert advice.beside_the_same_batch(found, "easy", "cppo") is None
    assert advice.beside_the_same_batch(found, "middle", "max_contrast") is None
    text = write_page(records).read_text(encoding="utf-8")
    assert "max_contrast (no difference shown beside rejection-sampling)" in text


def test_a_stage_may_have_rates_that_another_one_chose_for_some_of_its_arms(small, tmp_path):
    stages = small.values["stages"]
    stages["retuning"] = {**stages["tuning"], "seeds": [3, 4], "arms": ["max_contrast"]}
    stages["batch-again"] = {**stages["batch"], "seeds": [421, 422, 423], "tuned_by": "retuning"}
    records = Records(small, tmp_path)
    for run in small.runs:
        # max_contrast learns more at the lower rate in retuning, else all at the higher one.
        is_low = run.rate == 1e-4
        best = is_low if run.stage == "retuning" else not is_low
        rate = run.rate or reported_of(records).rate_of(run)
        make(records, run, rate=rate, end=0.8 if best and run.arm == "max_contrast" else 0.5)

    found = reported_of(records)
    found.check_rates()
    assert found.chosen_rate("easy", "max_contrast") == 1e-3
    assert found.chosen_rate("easy", "max_contrast", "retuning") == 1e-4
    again = {run.arm: found.rate_of(run) for run in small.runs if run.stage == SAME_BATCH_AGAIN}
    assert again == {"grpo-8": 1e-4, "max_contrast": 1e-4, "rejection-sampling": 1e-4}
    assert small.same_batch_on("easy") == SAME_BATCH_AGAIN


# --- page and commands ----------------------------------------------------------------------------


def test_a_page_without_runs_says_so(records):
    text = write_page(records).read_text(encoding="utf-8")
    assert "**No run has been made yet.**" in text
    assert "## Advice" not in text


def test_the_page_of_a_few_raw_files_says_what_they_say(records):
    make_all(records, max_contrast={"end": 0.8}, rejection_sampling={"pass_k": (0.5, 0.25)})
    text = write_page(records).read_text(encoding="utf-8")
    # The end is 80 %, the mean over the run 50; the reference 50 and 35.
    assert "| max_contrast | 1e-03 | 80.0 | 50.0 | +15.0 (" in text
    assert "| easy | time | max_contrast (better beside rejection-sampling) | on easy |" in text
    assert "* **At equal time** better: max_contrast (on 1). Worse: none. No" in text
    assert "difference shown on any: rejection-sampling." in text
    assert "By the rule **rejection-sampling** is for short budgets only" in text
    assert level_of(reported_of(records), "easy") == pytest.approx(0.6)
    # Both seeds of tuning beside their mean.
    assert "| easy | max_contrast | 30.0 (30.0, 30.0) | 40.0 (40.0, 40.0) | 1e-03, at" in text
    # Every arm makes 1000 rollouts in 100 steps; beside none of its size, as there is no control.
    assert "| max_contrast | 100 and 100 | +15.0 (" in text
    assert "Beside arms that generate as many rollouts" not in text
    # Half of 128 questions is solved at first, and 14 of 16 of what the questions had: all or none.
    assert "| the start | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 4.00 | 0.50 |" in text
    assert "Of them 39 ended, 0 failed" in text


def test_sizes_and_counts_on_the_page_are_those_of_the_protocol(small, tmp_path):
    values = small.values
    values["settings"]["per_device_train_batch_size"] = 16
    values["arms"]["rejection-sampling"]["settings"]["num_rollouts"] = 3
    values["arms"]["grpo-8x4"] = read_protocol().arms["grpo-8x4"] | {"sets": ["easy"]}
    values["arms"]["grpo-8x4"]["settings"]["steps_per_generation"] = 3
    arms = ["grpo-8", "grpo-8x4", "rejection-sampling"]
    values["stages"]["batch"] |= {"arms": arms, "reference": "grpo-8x4"}
    for name in small.stages:
        values["stages"][name]["measured"]["samples"] = 8
    records = Records(small, tmp_path)
    make_all(records, rejection_sampling={"pass_k": (0.5, 0.25)})

    # 16 rows are two groups of 8, and three updates of them 48 rollouts.
    text = " ".join(write_page(records).read_text(encoding="utf-8").split())
    assert "It is measured [at set times](protocol.md#what-is-measured), with a straight" in text
    assert "Arms that generate 48 rollouts at once pay less for each than the reference," in text
    assert "which generates 16." in text
    assert "one sets have plain GRPO that generates 48 and makes three updates of them." in text
    assert "an arm of 48 makes one step where the reference makes three." in text
    assert "by their advantage over all three, which is 0" in text
    assert "chose among two rates, each about ten times the one before." in text
    assert (
        "grpo-8x4 generates 48 rollouts at once, as the arms that choose among them do, and" in text
    )
    assert "trains on all of them, in three updates." in text

    assert "Of 8 samples of each of the first 128 test questions, at the end" in text
    assert "| pass@4, % | pass@8, % | distinct answers of 8 |" in text
    assert (
        "By the rule **rejection-sampling** is for short budgets only: in the long runs its" in text
    )
    assert "its pass@8 ends too low on easy" in text
    assert "| arm | pass@8 above its start | pass@8 beside max_contrast |" in text
    assert "16 samples" not in text
    assert "pass@16" not in text.lower()


def test_arms_that_choose_generate_as_many_at_once_as_the_one_that_they_stand_beside():
    reference = step_of(PROTOCOL, PROTOCOL.reference).rollouts
    at_once = step_of(PROTOCOL, PROTOCOL.reference_of(SAME_BATCH)).rollouts
    sizes = {arm: step_of(PROTOCOL, arm) for arm in PROTOCOL.arms}
    assert {step.rollouts for step in sizes.values()} == {reference, at_once}
    choosing = [step.rollouts for step in sizes.values() if step.generated != step.kept]
    assert set(choosing) == {at_once}


def test_an_arm_that_never_had_a_row_with_a_pass_has_no_cost_of_a_row(records):
    make_all(records)
    for file in (records.folder / "raw").glob("reported_easy_max_contrast_*"):
        result = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(
            json.dumps({**result, "teaching_rows": 0.0, "g_over_u": None}), encoding="utf-8"
        )
    text = write_page(records).read_text(encoding="utf-8")
    # 32 s of generating, scoring and selecting for 1000 rollouts, and 28 s for half of 1000 rows.
    assert "| 32.0 | - | - |" in text
    assert "| 32.0 | 56.0 | 0.90 |" in text


def test_the_tables_of_the_evidence_page_have_complete_sets_alone(records):
    assert front_tables.differences(reported_of(records)) == ["No set is complete yet."]
    assert front_tables.variety(reported_of(records)) == ["Not known yet."]

    make_all(records, max_contrast={"end": 0.8}, rejection_sampling={"end": 0.21})
    heads, _, row, _ = front_tables.differences(reported_of(records))
    assert heads == "| arm | easy |"
    assert row.endswith(": better |")
    # Half of the questions are solved in all of their samples, at the start and at the end.
    variety = front_tables.variety(reported_of(records))
    assert "| easy | 50%, 50% | 50%, 50% | 50%, 50% | 50%, 50% |" in variety


def test_an_incomplete_set_gets_no_advice(records):
    make_all(records)
    for file in (records.folder / "raw").glob("reported_easy_max_contrast_101*"):
        file.unlink()  # as if it had been killed
    text = write_page(records).read_text(encoding="utf-8")
    assert "| easy | time | not complete |" in text
    assert "reported_easy_max_contrast_101 | 1 |" in text


def test_an_unknown_arm_is_refused_with_the_known_ones(capsys):
    assert main(["one", "grpo-9", "easy", "101"]) == 2
    assert "grpo-8" in capsys.readouterr().err


@pytest.mark.parametrize(("norm", "has_not_diverged"), [(0.5, True), (math.nan, False)])
def test_a_run_whose_gradient_became_nan_has_diverged_and_is_an_outcome(
    tmp_path, norm, has_not_diverged
):
    run = RunFolder(tmp_path)
    for step, of_step in enumerate((1.0, norm), start=1):
        run.append_metrics(
            {
                "step": step,
                "pods/seconds_update": 1.0,
                "pods/kept_rollouts": 8.0,
                "pods/zero_advantage_rows": 2.0,
                "frac_reward_zero_std": 0.25,
                "grad_norm": of_step,
            }
        )
    told = one_run._of_the_log(run.metrics())
    assert told["has_not_diverged"] is has_not_diverged
    assert (told["teaching_rows"], told["teaching_prompts"]) == (0.75, 0.75)


def test_a_real_run_of_a_second_is_measured_and_leaves_no_folder(tmp_path):
    values = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    values["questions"] = {"train_size": 256, "tuning_size": 8, "test_size": 8}
    values["sets"]["steps"]["measured"]["reported"]["sampled_questions"] = 2
    few = Protocol(values, digest="few")
    planned = PlannedRun("reported", "steps", "max_contrast", 111)
    result = running.make(few, planned, 1e-4, seconds=1.0, work=tmp_path)

    first, *_, last = result["measured"]
    assert len(first["greedy"]) == len(last["greedy"]) == 8
    assert "right" not in first  # at the start all arms are alike, and the reference tells
    assert len(last["right"]) == 2
    assert last["seconds"] >= 1.0
    assert last["rollouts"] == 4 * last["rows"] == 128 * result["steps"]
    assert sum(result["phases"].values()) == pytest.approx(last["seconds"], rel=0.05)
    assert not list(tmp_path.iterdir())
    assert json.loads(json.dumps(result, allow_nan=False)) == result


# --- making what is missing -----------------------------------------------------------------------


@pytest.fixture
def but_one(records, monkeypatch):
    """The records of all runs but one, which this machine is to make; and that run."""
    monkeypatch.setattr(running, "describe_environment", lambda: {"cpu": CPU})
    make_all(records)
    run = PlannedRun("reported", "easy", "max_contrast", 101)
    (file,) = (records.folder / "raw").glob(f"{run.name}_*")
    file.unlink()
    return records, run


def make_missing(records, work):
    return running.run(records, ["reported"], ["easy"], jobs=1, minutes=1, work=work, commit="abc")


def states_of(records, run):
    return [attempt.state for attempt in records.attempts() if attempt.run == run.name]


def test_a_run_whose_process_dies_is_begun_twice_in_a_call_and_again_in_a_later_one(
    but_one, tmp_path, monkeypatch
):
    records, run = but_one
    monkeypatch.setattr(running, "make", lambda *given, **named: os.kill(os.getpid(), 9))
    assert make_missing(records, tmp_path / "work") == 0
    assert states_of(records, run) == ["stopped"] * (1 + 2)

    # As after the end of a machine: it is made again, and it counts.
    result = result_of(records.protocol, run, 1e-3)
    monkeypatch.setattr(running, "make", lambda *given, **named: result)
    assert make_missing(records, tmp_path / "work") == 1
    assert states_of(records, run) == ["stopped"] * 3 + ["ended"]


def test_a_run_that_can_not_even_be_begun_is_left_after_two_tries(but_one, tmp_path, capfd):
    records, run = but_one
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "logs").touch()  # so that no log can be opened
    assert make_missing(records, tmp_path / "work") == 0
    assert capfd.readouterr().err.count(f"{run.name} did not end") == 2
    assert states_of(records, run) == ["stopped"]  # the attempt of before


def test_a_run_whose_result_can_not_be_written_has_failed(but_one, tmp_path, monkeypatch):
    records, run = but_one
    result = {**result_of(records.protocol, run, 1e-3), "probe_seconds": math.nan}
    monkeypatch.setattr(running, "make", lambda *given, **named: result)
    assert make_missing(records, tmp_path / "work") == 0
    assert states_of(records, run) == ["stopped", "failed", "failed"]
    assert reported_of(records).has_given_up(run)


# --- on a GPU -------------------------------------------------------------------------------------


def test_runs_on_a_gpu_differ_in_their_clock_and_length_alone():
    run = PROTOCOL.gpu_runs[0]
    twin = PlannedRun("reported", run.set, run.arm, run.seed)
    on_gpu = PROTOCOL.settings_of(run, 1e-4)
    on_cpu = PROTOCOL.settings_of(twin, 1e-4)
    other = {name for name in on_gpu if on_gpu[name] != on_cpu[name]}
    assert other == {"training_clock", "use_cpu", "max_training_seconds"}
    assert on_gpu["use_cpu"] is False


def test_runs_on_a_gpu_stand_by_themselves_on_the_page(records):
    make_all(records)
    text = write_page(records).read_text(encoding="utf-8")
    assert f"None of the {len(records.protocol.gpu_runs)} planned runs has been made" in text

    for run in records.protocol.gpu_runs:
        end = 0.8 if run.arm == "max_contrast" else 0.5
        make(records, run, machine="a GPU", rate=1e-3, end=end)
    text = write_page(records).read_text(encoding="utf-8").split("## On a GPU")[1]
    assert "| max_contrast | 1e-03 | 100 | 50.0 | +15.0 (" in text
    assert "None of the" not in text
    assert advice.general_advice(reported_of(records)) == "grpo-8"


def test_without_a_gpu_its_stage_is_refused(records, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInputError, match="there is no NVIDIA GPU here"):
        running.run(
            records, ["gpu"], ["easy"], jobs=1, minutes=1, work=tmp_path / "work", commit="abc"
        )


def test_a_copy_without_its_history_is_told_the_commit(records, monkeypatch, tmp_path):
    monkeypatch.setattr(running, "ROOT", tmp_path)
    with pytest.raises(InvalidInputError, match="give it by --commit"):
        running.run(records, ["tuning"], ["easy"], jobs=1, minutes=0, work=tmp_path / "work")

    ended = running.run(
        records, ["tuning"], ["easy"], jobs=1, minutes=-1, work=tmp_path / "work", commit="abc"
    )
    assert ended == 0  # nothing was begun, as there was no time, and git was not asked


@pytest.mark.slow
def test_the_road_of_a_gpu_is_travelled_to_its_end_in_processes_of_their_own(
    small, tmp_path, monkeypatch
):
    """With a program that names a GPU; without one, torch computes on the CPU."""
    values = json.loads(json.dumps(dict(small.values)))
    values["arms"] = {"grpo-8": values["arms"]["grpo-8"]}
    for stage in ("reported", "long", "batch", "gpu"):
        values["stages"][stage]["arms"] = ["grpo-8"]
    values["questions"] = {"train_size": 256, "tuning_size": 8, "test_size": 8}
    values["stages"]["gpu"] |= {"seeds": [301, 302], "seconds": 1.0}
    values["stages"]["gpu"]["measured_of_reference"] = {"sampled_questions": 2}
    records = Records(Protocol(values, digest="few"), tmp_path)
    make_all(records)

    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho A GPU\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ended = running.run(
        records, ["gpu"], ["easy"], jobs=2, minutes=5, work=tmp_path / "work", commit="abc"
    )

    logs = [file.read_text() for file in (tmp_path / "work" / "logs").iterdir()]
    assert ended == 2, logs
    of_gpu = [attempt for attempt in records.attempts() if attempt.run.startswith("gpu_")]
    assert [(attempt.machine, attempt.state) for attempt in of_gpu] == [("A GPU", "ended")] * 2
    assert {attempt.commit for attempt in of_gpu} == {"abc"}
    assert of_gpu[0].result["settings"]["training_clock"] == "wall"
