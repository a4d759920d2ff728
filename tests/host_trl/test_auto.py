"""`num_rollouts: auto` in real training: it measures, chooses, says so and stays."""

import logging
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import pyarrow.parquet as pq
from trl import TrlParser

from podsrl.errors import InvalidInputError
from podsrl.trl import PODSConfig, checkpoint
from support.trl_runs import equal, logged, weights

SIZES = {"max_num_rollouts": 16, "max_steps": 8}
SCHEDULE = [16, 16, 4, 4, 8, 8]  # m = 4, 2m, 4m


def slow_to_score(completions: list[Any], **kwargs: Any) -> list[float]:
    """Every other one is right; each takes 60 ms, beside which all else is little."""
    time.sleep(len(completions) / 16)
    return [float(sum(map(ord, c[-1]["content"])) % 2) for c in completions]


def rarely_right(completions: list[Any], **kwargs: Any) -> list[float]:
    """About one completion of thirty, at a cost of an update beside which rollouts are free."""
    return [float(sum(map(ord, c[-1]["content"])) % 31 == 0) for c in completions]


def sizes(trainer: Any) -> list[int]:
    return [int(entry["pods/num_rollouts"]) for entry in logged(trainer)]


def test_it_measures_chooses_says_so_and_stays(make_trainer, caplog):
    caplog.set_level(logging.INFO, logger="podsrl")
    trainer = make_trainer("auto", reward_funcs=slow_to_score, **SIZES)
    trainer.train()
    assert sizes(trainer) == [*SCHEDULE, 4, 4]
    assert trainer.num_rollouts == trainer.auto.chosen == 4
    assert trainer.args.num_rollouts == "auto"
    said = [record.message for record in caplog.records if "auto" in record.message]
    assert said == [
        "num_rollouts auto: the first 6 generations measure n = 16, 4, 8",
        f"num_rollouts auto: {trainer.auto.reason}",
    ]
    assert "n = m = 4, plain GRPO: more rollouts don't pay here" in trainer.auto.reason
    # two groups a step; each step's rollouts are all logged, and all are training like any other
    table = pq.read_table(Path(trainer.args.output_dir) / "rollouts" / "step_000001.parquet")
    assert (table.num_rows, sum(table["kept"].to_pylist())) == (32, 8)
    assert trainer.rollouts_generated == 2 * sum([*SCHEDULE, 4, 4])


def test_where_contrast_is_rare_it_takes_more_rollouts(make_trainer):
    fields = {**SIZES, "num_iterations": 3, "max_steps": 21}
    trainer = make_trainer("auto", reward_funcs=rarely_right, **fields)
    trainer.train()
    # three optimiser steps on each generation; a size holds for all of them
    assert [n for n in SCHEDULE for _ in range(3)] == carried(trainer)[:18]
    assert trainer.num_rollouts in (8, 16)
    assert f"n = {trainer.num_rollouts}, m = 4" in trainer.auto.reason


def carried(trainer: Any) -> list[int]:
    """n of each optimiser step; it is logged with a generation."""
    found: list[int] = []
    for entry in trainer.state.log_history:
        if "loss" in entry:
            found.append(int(entry.get("pods/num_rollouts", found[-1] if found else 0)))
    return found


@pytest.mark.parametrize("stop", [3, 7])
def test_a_resumed_run_goes_on_with_what_was_measured_and_chosen(make_trainer, stop):
    fields = {**SIZES, "max_steps": 9, "save_strategy": "steps", "save_steps": stop}
    straight = make_trainer("auto", "run", slow_to_score, **fields)
    straight.train()
    folder = Path(straight.args.output_dir)
    for later in folder.glob("checkpoint-*"):
        if checkpoint.step_of(later) != stop:
            shutil.rmtree(later)
    resumed = make_trainer("auto", "run", slow_to_score, **fields)
    resumed.train(resume_from_checkpoint=str(checkpoint.last_complete(folder)))
    assert sizes(resumed) == sizes(straight) == [*SCHEDULE, 4, 4, 4]
    assert resumed.auto.chosen == 4
    if stop > len(SCHEDULE):
        assert resumed.auto.reason == straight.auto.reason
    assert equal(weights(straight), weights(resumed))


def test_measuring_resumes_in_the_middle_of_a_generation_exactly(make_trainer):
    fields = {**SIZES, "num_iterations": 2, "max_steps": 4, "save_strategy": "steps"}
    straight = make_trainer("auto", "run", save_steps=3, **fields)
    straight.train()
    folder = Path(straight.args.output_dir)
    shutil.rmtree(folder / "checkpoint-4")
    resumed = make_trainer("auto", "run", save_steps=3, **fields)
    resumed.train(resume_from_checkpoint=str(folder / "checkpoint-3"))
    ours, theirs = resumed.auto.state(), straight.auto.state()
    assert ours["num_rollouts"] == theirs["num_rollouts"] == SCHEDULE[2]
    assert ours["rewards"] == theirs["rewards"]
    assert ours["timings"][0] == theirs["timings"][0]
    assert [t[-1] for t in ours["timings"]] == [t[-1] for t in theirs["timings"]]


def test_when_nothing_can_be_scored_it_stays_with_n_equal_to_m(make_trainer, caplog):
    def never(completions: list[Any], **kwargs: Any) -> list[None]:
        return [None] * len(completions)

    trainer = make_trainer("auto", reward_funcs=never, **{**SIZES, "max_steps": 6})
    trainer.train()
    assert trainer.auto.chosen == 4
    assert "no rollout has a reward" in trainer.auto.reason


def test_a_cap_of_m_leaves_nothing_to_measure(make_trainer):
    auto = make_trainer("auto", "auto", max_num_rollouts=4)
    auto.train()
    plain = make_trainer(4, "plain")
    plain.train()
    assert auto.auto.chosen == 4
    assert equal(weights(auto), weights(plain))


def test_auto_is_a_word_of_the_config_in_python_yaml_and_flags(tmp_path):
    common = ["--output_dir", str(tmp_path), "--use_cpu", "true", "--bf16", "false"]
    parser = TrlParser(PODSConfig)
    for given, expected in [("auto", "auto"), ("32", 32)]:
        (config,) = parser.parse_args_into_dataclasses([*common, "--num_rollouts", given])
        assert config.num_rollouts == expected
    (config,) = parser.parse_args_into_dataclasses(common)
    assert (config.num_rollouts, config.most_rollouts) == (64, 64)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"num_rollouts": "car"}, "num_rollouts must be an integer or 'auto'; got 'car'"),
        (
            {"num_rollouts": "auto", "max_num_rollouts": 8},
            r"num_generations \(m\) = 16 of max_num_rollouts \(n\) = 8",
        ),
        ({"num_rollouts": "auto", "max_num_rollouts": 0.5}, "max_num_rollouts must be an integer"),
    ],
)
def test_a_wrong_auto_says_what_is_allowed(tmp_path, fields, says):
    with pytest.raises(InvalidInputError, match=says):
        PODSConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none", **fields)
