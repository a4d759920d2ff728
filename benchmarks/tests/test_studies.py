"""The studies: their packed runs are those of their plans, and nothing is missing."""

import random
import tarfile

import pytest

pytest.importorskip("podslab")

import numpy as np
import yaml

from benchmarks.folders import ROOT
from benchmarks.studies import outcome
from benchmarks.studies.controls import contrast_without_wrong, right_alike
from benchmarks.studies.long_prompts import LongPrompts
from benchmarks.studies.long_prompts_start import Lessons
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
    with tarfile.open(outcome.packed(request.param)) as runs:
        runs.extractall(folder, filter="data")
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
    assert set(outcome.FORETOLD.get(name, ())) <= set(spec.arms)
    assert len(outcome.learned(name)) == len(outcome.worths(name)) == 2 + len(spec.arms)


@pytest.mark.parametrize(
    ("foretold", "said"), [(1.1, "1.10, too low"), (1.5, "1.50, inside"), (2.0, "2.00, too high")]
)
def test_a_forecast_stands_beside_the_interval(foretold, said):
    assert outcome.beside(foretold, Ratio(1.5, 1.2, 1.9)) == said
    assert outcome.beside(foretold, None) == said.split(",")[0]


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
