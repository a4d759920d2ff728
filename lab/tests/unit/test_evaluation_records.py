"""The evaluations of a run: evaluations.jsonl, and what is refused in it."""

import json
import math
from dataclasses import replace

import pytest

from podslab.evaluation.records import MEAN_REWARD, Evaluation, append_evaluation, evaluations
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder


def evaluation(step, accuracy=(0.5, 0.7), split="test"):
    return Evaluation(
        step=step,
        training_seconds=float(step),
        rollouts_generated=64 * step,
        rollouts_trained=16 * step,
        task="arithmetic",
        split=split,
        problems=10,
        repeats=len(accuracy),
        answer_accuracy=tuple(accuracy),
        format_accuracy=tuple(accuracy),
        both_accuracy=tuple(accuracy),
        mean_length=(9.0,) * len(accuracy),
    )


def test_evaluations_read_back_as_they_were_written(tmp_path):
    run = RunFolder(tmp_path / "run")
    assert evaluations(run) == []
    append_evaluation(run, evaluation(0))
    append_evaluation(run, evaluation(2))
    assert evaluations(RunFolder(tmp_path / "run")) == [evaluation(0), evaluation(2)]
    assert evaluation(0).mean("answer_accuracy") == pytest.approx(0.6)  # (0.5 + 0.7) / 2


def test_an_evaluation_with_other_fields_is_refused_with_its_file(tmp_path):
    run = RunFolder(tmp_path)
    append_evaluation(run, evaluation(1))
    path = tmp_path / "evaluations.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), "extra": 1}) + "\n")
    with pytest.raises(InvalidInputError, match=r"evaluations\.jsonl: a line is damaged: .*extra"):
        evaluations(run)


def test_truncating_a_run_forgets_its_later_evaluations(tmp_path):
    run = RunFolder(tmp_path)
    for step in (1, 2, 3):
        append_evaluation(run, evaluation(step))
    run.truncate_after(2)
    assert [one.step for one in evaluations(run)] == [1, 2]


def test_answers_that_could_not_be_scored_are_left_out_of_every_mean(tmp_path):
    run = RunFolder(tmp_path)
    rewards = [[-1.0, float("nan")], [-3.0, float("nan")], [-5.0, float("nan")]]
    written = replace(evaluation(1, accuracy=(-3.0, float("nan"))), rewards=rewards)
    append_evaluation(run, written)
    (read,) = evaluations(run)
    assert read.answer_accuracy == (-3.0, None)
    for one in (written, read):
        assert one.mean("answer_accuracy") == -3.0
        assert one.mean(MEAN_REWARD) == -3.0
    nothing = replace(read, rewards=[[None, None]], answer_accuracy=(None, None))
    assert math.isnan(nothing.mean("answer_accuracy"))
    assert math.isnan(nothing.mean(MEAN_REWARD))


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ((), True),
        ([[0.0, 1.0], [1.0, None]], True),
        ([[0.0, 0.5]], False),
        ([[-1.0, 1.0]], False),
        ([[0.0, 2.0]], False),
    ],
)
def test_answers_are_right_or_wrong_where_all_that_were_scored_have_1_or_0(rewards, expected):
    assert replace(evaluation(1), rewards=rewards).is_right_or_wrong is expected
