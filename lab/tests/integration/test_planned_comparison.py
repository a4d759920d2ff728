"""A planned comparison: rates, looks, verdicts, its ledger, and what is not reported."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("trl")

from podslab.comparison.comparison import RunKey, open_comparison, read_comparison
from podslab.comparison.comparison_config import parse_comparison
from podslab.engine.folder import ARMS_PLAN
from podslab.evaluation.records import evaluations
from podslab.report.load_runs import Choices, load_comparison
from podslab.training import run as training
from podslab.training.config_file import read_config
from podsrl.cli import main
from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log.run_folder import RunFolder
from support.synthetic_runs import write_run

SUPPORT = Path(__file__).parents[3] / "tests" / "support"
WITHOUT_TORCH = [sys.executable, str(SUPPORT / "comparison_worker.py")]
RATES = {"values": [1e-3, 3e-3], "seeds": [100], "split": "train"}


@pytest.fixture
def compare(comparison, tmp_path, monkeypatch, capsys) -> Any:
    """compare(behave, flags, key=value, ...): the status and the output of `pods compare`."""
    tests = str(SUPPORT.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ["PYTHONPATH"]]))

    def run(behave: dict[str, Any], flags: Sequence[str] = (), **keys: Any) -> tuple[int, str, str]:
        (tmp_path / "behave.json").write_text(json.dumps(behave))
        config = comparison(**{"arms": ["grpo", "pods"], "launch": WITHOUT_TORCH, **keys})
        file = tmp_path / "study.yaml"
        file.write_text(yaml.safe_dump(config))
        status = main(["compare", "--config", str(file), *flags])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def verdicts(folder: Path) -> dict[str, str]:
    decided = json.loads((folder / "runs" / "decision.json").read_text())
    return {one["arm"]: one["says"] for one in decided["verdicts"]}


def test_rates_are_chosen_on_seeds_and_questions_that_are_not_reported(compare, tmp_path):
    behave = {"pods": 0.9, "best_rate": 3e-3}
    status, out, err = compare(behave, rates=RATES, seeds=3)
    assert status == 0, err
    folder = tmp_path / "runs"
    assert json.loads((folder / "rates.json").read_text()) == {"grpo": 3e-3, "pods": 3e-3}
    spec = read_comparison(folder)
    tuning = spec.run_spec(RunKey("pods", 100, 1e-3))
    assert (tuning.run.evaluation_split, tuning.training.learning_rate) == ("train", 1e-3)
    reported = spec.run_spec(RunKey("pods", 0))
    assert (reported.run.evaluation_split, reported.training.learning_rate) == ("test", 3e-3)

    assert "better" in out
    assert verdicts(tmp_path) == {"pods": "better"}
    # Runs for tuning are in no report.
    report = load_comparison([folder], Choices())
    assert {(run.arm, run.seed) for run in report.runs} == {
        (arm, seed) for arm in ("grpo", "pods") for seed in range(3)
    }


def test_a_rate_at_which_runs_fail_twice_is_not_chosen(compare, tmp_path):
    behave = {"best_rate": 3e-3, "tuning pods at 0.003 seed 100": "kill"}
    status, _, err = compare(behave, rates=RATES)
    assert status == 2
    assert "tuning pods at 0.003 seed 100" in err
    assert not (tmp_path / "runs" / "rates.json").exists()

    # Of the reported runs none failed.
    status, _, err = compare(behave, rates=RATES)
    assert status == 0, err
    rates = json.loads((tmp_path / "runs" / "rates.json").read_text())
    assert rates == {"grpo": 3e-3, "pods": 1e-3}


def test_an_arm_that_is_added_gets_a_rate_of_its_own(compare, tmp_path):
    assert compare({"best_rate": 3e-3}, rates=RATES)[0] == 0
    arms = ["grpo", "pods", "max_contrast"]
    status, _, err = compare({"best_rate": 1e-3}, rates=RATES, arms=arms)
    assert status == 0, err
    folder = tmp_path / "runs"
    rates = json.loads((folder / "rates.json").read_text())
    assert rates == {"grpo": 3e-3, "pods": 3e-3, "max_contrast": 1e-3}
    run = read_comparison(folder).run_spec(RunKey("max_contrast", 0))
    assert run.training.learning_rate == 1e-3


def test_of_equal_rates_the_lower_one_is_chosen(compare, tmp_path):
    assert compare({}, rates=RATES)[0] == 0
    rates = json.loads((tmp_path / "runs" / "rates.json").read_text())
    assert rates == {"grpo": 1e-3, "pods": 1e-3}


def test_equal_arms_show_no_difference(compare, tmp_path):
    status, out, _ = compare({}, seeds=4)
    assert status == 0
    assert "no difference shown" in out
    assert verdicts(tmp_path) == {"pods": "no difference shown"}


def test_a_planned_look_ends_a_comparison_that_is_decided(compare, tmp_path):
    decision = {"looks": [3, 6]}
    assert compare({"pods": 0.9}, seeds=6, decision=decision)[0] == 0
    folder = tmp_path / "runs"
    assert sorted(path.name for path in (folder / "pods").glob("seed-?")) == [
        "seed-0",
        "seed-1",
        "seed-2",
    ]
    decided = json.loads((folder / "decision.json").read_text())
    assert decided["level"] == pytest.approx(0.05 * 3 / 9)
    assert {run.seed for run in load_comparison([folder], Choices()).runs} == {0, 1, 2}


def test_a_shard_alone_judges_nothing(compare, tmp_path):
    keys = {"seeds": 4, "decision": {"looks": [2, 4]}}
    status, out, _ = compare({"pods": 0.9}, ["--shard", "1/2"], **keys)
    assert status == 0
    assert "better" not in out
    assert not (tmp_path / "runs" / "decision.json").exists()

    # With the other one all is there, and no look came before the last.
    status, out, _ = compare({"pods": 0.9}, ["--shard", "2/2"], **keys)
    assert status == 0
    assert verdicts(tmp_path) == {"pods": "better"}
    decided = json.loads((tmp_path / "runs" / "decision.json").read_text())
    assert decided["seeds"] == [0, 1, 2, 3]


def test_a_look_without_all_of_its_runs_decides_nothing(compare, tmp_path):
    behave = {"pods": 0.9, "pods seed 2": "kill"}
    keys = {"seeds": 6, "decision": {"looks": [3, 6]}}
    assert compare(behave, **keys)[0] == 1
    assert not (tmp_path / "runs" / "decision.json").exists()


def test_no_seeds_are_added_to_planned_looks(compare):
    decision = {"looks": [2, 3]}
    assert compare({}, seeds=3, decision=decision)[0] == 0
    status, _, err = compare({}, seeds=[5, 6, 7], decision=decision)
    assert status == 2
    assert "seeds" in err


def test_runs_for_tuning_are_in_no_report_of_a_folder_above(compare, tmp_path):
    assert compare({}, rates=RATES)[0] == 0
    report = load_comparison([tmp_path], Choices())
    assert {(run.arm, run.seed) for run in report.runs} == {("grpo", 0), ("pods", 0)}


def test_a_launcher_that_is_not_there_is_named(compare):
    status, _, err = compare({}, launch=["no-such-launcher"])
    assert status == 2
    assert "no-such-launcher" in err


def test_every_attempt_is_in_the_ledger_with_the_plan_and_the_code(compare, tmp_path):
    assert compare({"pods": "kill"}, seeds=1)[0] == 1
    status, out, _ = compare({}, seeds=1)
    assert status == 0
    attempts = read_comparison(tmp_path / "runs").ledger().attempts()
    assert [(one.run, one.number, one.state) for one in attempts] == [
        ("grpo seed 0", 1, "ended"),
        ("pods seed 0", 1, "failed"),
        ("pods seed 0", 2, "ended"),
    ]
    assert len({(one.plan, one.code) for one in attempts}) == 1
    assert "1 attempts did not end: pods seed 0 (failed)" in out


def test_a_plan_that_grew_after_its_runs_says_that_its_level_does_not_hold(compare):
    assert compare({}, seeds=2)[0] == 0
    status, out, _ = compare({}, seeds=3)
    assert status == 0
    assert "The plan was changed after 4 of these runs" in out


def test_a_run_that_the_plan_does_not_name_is_not_reported(compare, tmp_path):
    assert compare({}, seeds=1)[0] == 0
    write_run(tmp_path / "runs" / "pods" / "seed-9", "pods", 9, (0.1, 0.5, 0.9))
    with pytest.raises(InvalidInputError, match=f"{ARMS_PLAN} names no such run"):
        load_comparison([tmp_path / "runs"], Choices())


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"rates": [1e-3]}, "two learning rates or more"),
        (
            {"rates": [1e-3, 3.1623e-4, 3.1624e-4]},
            "rates 0.00031623 and 0.00031624 are both 0.000316",
        ),
        ({"rates": {"values": [1e-3, 2e-3], "split": "test"}}, "choose rates by other questions"),
        ({"rates": {"values": [1e-3, 2e-3], "seeds": [0]}}, "choose rates by other seeds"),
        ({"rates": {"values": [1e-3, 2e-3], "seed": 1}}, "rates has no 'seed'"),
        ({"decision": {"reference": "ppo"}}, "no arm 'ppo' to compare with"),
        ({"decision": {"by": "peak"}}, "by is 'end' or 'run'"),
        ({"decision": {"level": 2}}, "level lies between 0 and 1"),
        ({"decision": {"level": "high"}}, "level lies between 0 and 1"),
        ({"decision": {"looks": 3}, "seeds": 3}, "looks are numbers of seeds"),
        ({"decision": {"looks": ["two", 3]}, "seeds": 3}, "looks are numbers of seeds"),
        ({"decision": {"looks": [2, 3]}, "seeds": 8}, "looks are numbers of seeds"),
        ({"decision": {"alpha": 0.1}}, "decision may say reference"),
        ({"budget": {"price": 10}}, "says what a rollout and a row cost"),
        ({"budget": {"rollouts": 0.5}}, "budget must say how much"),
    ],
)
def test_a_plan_that_would_not_hold_is_refused(comparison, keys, says):
    with pytest.raises(PodsError, match=says):
        parse_comparison(comparison(**keys), "x")


def train(comparison: Any, folder: Path, **keys: Any) -> RunFolder:
    spec = open_comparison(parse_comparison(comparison(output_dir=str(folder), **keys), "x"))
    run_spec = spec.run_spec(RunKey("pods", 0))
    training.train(run_spec, training.load_data(run_spec))
    return spec.run_folder(RunKey("pods", 0))


def test_a_run_of_a_price_ends_where_its_rollouts_and_rows_cost_it(comparison, tmp_path):
    # 8 rollouts and 4 rows in a step: at 0.5 and 1 at most 8 a step, less where rows are spared
    budget = {"price": 30, "rollout": 0.5, "row": 1.0}
    run = train(comparison, tmp_path / "a", budget=budget, evaluations=3)
    price = [0.5 * point.rollouts_generated + point.rows_passed for point in evaluations(run)]
    assert price[0] == 0
    assert price[-1] >= 30
    last = run.metrics()[-2 if "train_runtime" in run.metrics()[-1] else -1]
    assert price[-1] - 8 < 30  # the step before had not spent it
    assert last["pods/rollouts_generated"] == evaluations(run)[-1].rollouts_generated
    # each measurement is at the first step that reached its point
    for place, spent in enumerate(price[1:], start=1):
        assert 10 * place <= spent < 10 * place + 8


def test_a_priced_run_is_the_same_to_the_last_digit_when_it_is_repeated(comparison, tmp_path):
    budget = {"price": 40, "rollout": 0.5, "row": 1.0}
    first, again = (
        train(comparison, tmp_path / name, budget=budget, evaluations=2) for name in "ab"
    )

    def without_times(run: RunFolder) -> list[dict[str, Any]]:
        return [
            {
                name: value
                for name, value in row.items()
                if not any(word in name for word in ("seconds", "time", "per_second", "memory"))
            }
            for row in run.metrics()
        ]

    assert without_times(first) == without_times(again)
    rewards = [[point.rewards for point in evaluations(run)] for run in (first, again)]
    assert rewards[0] == rewards[1]


def test_a_budget_of_rollouts_ends_a_run_at_the_step_that_reaches_it(comparison, tmp_path):
    run = train(comparison, tmp_path / "a", budget={"rollouts": 20}, evaluations=2)
    assert [point.rollouts_generated for point in evaluations(run)] == [0, 16, 24]


@pytest.mark.slow
def test_a_small_version_of_the_papers_comparison_runs_to_its_answer(tiny_model, tmp_path, capsys):
    """The shipped file, with a smaller model and two steps: real runs, verdicts, and a report."""
    config = read_config("compare/small-v1")
    config |= {"seeds": [201, 202], "budget": {"steps": 2}, "evaluations": 1}
    config["output_dir"] = str(tmp_path / "runs")
    small = {"model_name_or_path": str(tiny_model), "evaluation_problems": 8}
    config["settings"] = {**config["settings"], **small}
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(config))

    assert main(["compare", "--config", str(file)]) == 0
    assert "4 runs finished" in capsys.readouterr().out
    assert set(verdicts(tmp_path)) == {"pods_32"}
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report")]) == 0
