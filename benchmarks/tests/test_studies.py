"""The studies: their packed runs are those of their plans, and nothing is missing."""

import random

import pytest

pytest.importorskip("podslab")

import numpy as np
import yaml

from benchmarks.folders import ROOT, unpack
from benchmarks.studies import by_ratio, figure, outcome
from benchmarks.studies.controls import contrast_without_wrong, right_alike
from benchmarks.studies.form import Form
from benchmarks.studies.long_prompts import LongPrompts
from benchmarks.studies.long_prompts_start import Lessons
from benchmarks.studies.parity import Parity, completion
from podslab.comparison.comparison import read_comparison
from podslab.comparison.comparison_config import parse_comparison
from podslab.engine.ledger import ENDED
from podslab.models.tiny import TinySettings
from podslab.statistics.worth import Ratio
from podsrl.selection import Selection, select_groups

STUDIES = ROOT / "benchmarks" / "studies"


@pytest.fixture(scope="module", params=outcome.FOLDERS)
def study(request, tmp_path_factory):
    """A study's name, and its plan as its folder holds it, unpacked."""
    folder = tmp_path_factory.mktemp("study")
    unpack(outcome.packed(request.param), folder)
    return request.param, read_comparison(folder / request.param)


def test_the_runs_are_those_of_the_plan(study, monkeypatch):
    name, spec = study
    monkeypatch.chdir(ROOT)  # where its paths begin
    config = yaml.safe_load((STUDIES / f"{name}.yaml").read_text(encoding="utf-8"))
    planned = parse_comparison(config, name)
    assert spec.arms == planned.arms
    assert spec.tuning == planned.tuning
    assert (spec.seeds, spec.unit, spec.amount) == (planned.seeds, planned.unit, planned.amount)


def test_every_attempt_is_in_the_ledger_and_every_run_that_ended_is_there(study):
    _, spec = study
    ended = {one.run for one in spec.ledger().attempts() if one.state == ENDED}
    finished = {
        f"{file.parent.parent.name} {file.parent.name.replace('-', ' ')}"
        for file in spec.folder.glob("*/seed-*/finished.json")
    }
    assert finished == {run for run in ended if not run.startswith("tuning ")}
    tuned = list(spec.folder.glob("tuning/*/seed-*/finished.json"))
    assert len(tuned) == len(spec.arms) * len(spec.tuning.rates) * len(spec.tuning.seeds)


def test_forecasts_are_of_arms_that_there_are(study):
    name, spec = study
    for of_arms in outcome.FORETOLD.get(name, {}).values():
        assert set(of_arms) <= set(spec.arms)
    assert len(outcome.learned(name)) == len(outcome.worths(name)) == 2 + len(spec.arms)


def test_pairs_are_compared_as_arms_are_with_the_reference(study):
    name, spec = study
    for pair in outcome.PAIRS.get(name, ()):
        assert set(pair) <= set(spec.arms)
    found, _ = outcome.decision(name)
    for verdict in found.verdicts:
        assert outcome.paired(name, verdict.arm, spec.decision.reference) == verdict.difference


def test_the_figure_has_a_point_for_each_size_and_each_study():
    left, right = figure.draw().axes
    sizes = [len(line.lines[0].get_xdata()) for line in left.containers]
    assert sizes == [len(by_ratio.RATIOS)] * len(by_ratio.series())
    studies = [len(points.lines[0].get_xdata()) for points in right.containers]
    arms = (outcome.PODS, outcome.REJECTION)
    assert studies == [len(outcome.of_studies(names)) for names in arms]


@pytest.mark.parametrize(
    ("foretold", "said"), [(1.1, "1.10, too low"), (1.5, "1.50, inside"), (2.0, "2.00, too high")]
)
def test_a_forecast_stands_beside_the_interval(foretold, said):
    assert outcome.beside(foretold, Ratio(1.5, 1.2, 1.9)) == said
    assert outcome.beside(foretold, None) == said.split(",")[0]
    assert outcome.beside(None, Ratio(1.5, 1.2, 1.9)) == ""


def test_questions_with_long_prompts_have_one_right_answer_and_no_split_has_one_of_another():
    task = LongPrompts(train_size=64, tuning_size=32, test_size=32)
    asked = {}
    for split in task.splits:
        rows = task.load(split)
        assert all(task.grade(task.gold_completion(row), row).answer for row in rows)
        wrong = [{**row, "answer": row["answer"][::-1] + "0"} for row in rows]
        assert not any(task.grade(task.gold_completion(row), rows[0]).answer for row in wrong)
        asked[split] = {row["question"].rsplit("\n", 1)[-1] for row in rows}
        assert {row["question"].count("\n") for row in rows} == {16}
    assert not asked["train"] & (asked["test"] | asked["tuning"])
    assert not asked["test"] & asked["tuning"]


@pytest.mark.parametrize("pays", ["answer", "working"])
def test_a_right_answer_is_paid_for_with_its_working_or_without(pays):
    task = Parity(train_size=64, tuning_size=32, test_size=32, pays=pays)
    asked = {}
    for split in task.splits:
        rows = task.load(split)
        assert all(task.grade(task.gold_completion(row), row) == (True, True) for row in rows)
        slipped = [row["working"].replace("=", "=1", 1) for row in rows]
        graded = [task.grade(text, row) for text, row in zip(slipped, rows, strict=True)]
        assert set(graded) == {(pays == "answer", False)}
        numbers = [sorted(row["question"].split("+")) for row in rows]
        asked[split] = {tuple(pair) for pair in numbers}
    assert not asked["train"] & (asked["test"] | asked["tuning"])
    assert not asked["test"] & asked["tuning"]


def test_an_answer_counts_in_any_form_and_no_split_has_a_question_of_another():
    task = Form(train_size=64, tuning_size=32, test_size=32)
    asked = {}
    for split in task.splits:
        rows = task.load(split)
        right = [task.gold_completion(row) for row in rows]
        without_tag = [text.replace("<answer>", "\n") for text in right]
        wrong = [text.replace("<answer>", "<answer>1") for text in right]
        assert {task.grade(*pair) for pair in zip(right, rows, strict=True)} == {(True, True)}
        assert {task.grade(*pair) for pair in zip(without_tag, rows, strict=True)} == {
            (True, False)
        }
        assert {task.grade(*pair) for pair in zip(wrong, rows, strict=True)} == {(False, True)}
        asked[split] = {tuple(sorted(row["question"].split("+"))) for row in rows}
    assert not asked["train"] & (asked["test"] | asked["tuning"])
    assert not asked["test"] & asked["tuning"]


def test_the_count_of_odd_digits_follows_from_the_digits_that_are_written():
    text, answer = completion((472, 385), lambda fact, digit: (digit + 1) % 10)
    assert text == "<think>2+5=8e\n7+8=16e\n4+3+1=9o</think><answer>o</answer>"
    assert answer == "o"


def test_lessons_are_short_at_first_and_then_long():
    settings = TinySettings(steps=4, batch_size=8)
    lessons = Lessons(settings)
    draw = random.Random(0)
    examples = [lessons(draw)[0][0].count("=") - 1 for _ in range(4 * 8)]
    assert max(examples[:24]) == 1
    assert max(examples[24:]) > 8


def test_weights_of_the_controls():
    rewards = [[0, 0, 1, 0, 1, 0, 0, 0], [1] * 8]
    alike = select_groups(Selection(8, 4, rule=right_alike, baseline="group"), rewards)
    np.testing.assert_allclose(sorted(alike.advantages[0]), [0, 0, 1, 1], atol=1e-3)
    np.testing.assert_array_equal(alike.advantages[1], 0)

    contrast = Selection(8, 4, rule=contrast_without_wrong, baseline="group")
    of_right = select_groups(contrast, rewards).of_kept[0]
    assert {place for place, advantage in of_right.items() if advantage} == {2, 4}
