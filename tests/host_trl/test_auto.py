"""`num_rollouts: auto`: the chooser told of rewards and seconds, and in real training."""

import logging
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl")

import pyarrow.parquet as pq
from trl import TrlParser

from podsrl.errors import InvalidInputError
from podsrl.recommend.choice import grid, recommend
from podsrl.recommend.costs import Costs, Sizes, Timing
from podsrl.recommend.populations import BetaRates, measured
from podsrl.trl import PODSConfig, clock
from podsrl.trl.auto import RolloutChooser, candidates, measuring_schedule
from support.trl_runs import equal, logged, weights

SIZES = {"max_num_rollouts": 16, "max_steps": 8}
SCHEDULE = [16, 16, 4, 4, 8, 8]  # m = 4, 2m, 4m


def seconds(score: float, update: float) -> dict[str, float]:
    return {"generate": 0.1, "score": score, "select": 0.0, "update": update}


#: By n, per step: where all is paid by the rollout in scoring, and where rollouts are free.
SLOW_TO_SCORE = {n: seconds(n / 8, 0.1) for n in SCHEDULE}
FREE_ROLLOUTS = {n: seconds(0.0, 2.0) for n in SCHEDULE}


def rewards(rate: float, n: int, groups: int = 2) -> list[list[float]]:
    return (np.random.default_rng(n).random((groups, n)) < rate).astype(float).tolist()


def drive(chooser: RolloutChooser, costs: Any, rate: float, generations: int) -> list[int]:
    """n of each generation."""
    sizes = []
    for _ in range(generations):
        n = chooser.n
        sizes.append(n)
        assert chooser.observe(rewards(rate, n), [30] * 2 * n, costs[n]) == chooser.n
    return sizes


def test_it_measures_every_size_twice_chooses_says_why_and_stays():
    chooser = RolloutChooser(4, 16)
    assert chooser.chosen is None
    assert drive(chooser, SLOW_TO_SCORE, 0.5, 8) == [*SCHEDULE, 4, 4]
    assert chooser.n == chooser.chosen == 4
    assert (
        "num_rollouts = 4: 1 prompt, 4 -> 4, plain GRPO as it is: nothing else pays"
        in chooser.reason
    )


def test_where_contrast_is_rare_and_rollouts_are_free_it_takes_more():
    chooser = RolloutChooser(4, 16)
    drive(chooser, FREE_ROLLOUTS, 1 / 16, 6)
    assert chooser.chosen in (8, 16)
    assert f"num_rollouts = {chooser.chosen}: 1 prompt, {chooser.chosen} -> 4" in chooser.reason


def test_a_generation_of_several_steps_is_one_measurement_of_all_their_seconds():
    whole, split = RolloutChooser(4, 16), RolloutChooser(4, 16)
    for _ in SCHEDULE:
        n = whole.n
        assert split.n == n
        third = {phase: spent / 3 for phase, spent in SLOW_TO_SCORE[n].items()}
        split.observe(rewards(0.5, n), [30] * 2 * n, third, ends=False)
        split.observe([], [], third, ends=False)
        assert split.n == n
        split.observe([], [], third)
        whole.observe(rewards(0.5, n), [30] * 2 * n, SLOW_TO_SCORE[n])
    assert whole.chosen == split.chosen == 4


@pytest.mark.parametrize("stop", range(8))
def test_one_that_takes_up_the_state_of_another_goes_on_alike(stop):
    straight, stopped, resumed = (RolloutChooser(4, 16) for _ in range(3))
    sizes = drive(straight, FREE_ROLLOUTS, 1 / 16, 9)
    before = drive(stopped, FREE_ROLLOUTS, 1 / 16, stop)
    resumed.load_state_dict(stopped.state_dict())
    assert before + drive(resumed, FREE_ROLLOUTS, 1 / 16, 9 - stop) == sizes
    assert (resumed.chosen, resumed.reason) == (straight.chosen, straight.reason)


def test_when_nothing_can_be_scored_it_stays_with_n_equal_to_m():
    chooser = RolloutChooser(4, 16)
    for _ in SCHEDULE:
        chooser.observe([[float("nan")] * chooser.n], [30], SLOW_TO_SCORE[chooser.n])
    assert chooser.chosen == 4
    assert "no rollout has a reward" in chooser.reason


def test_where_prompts_get_one_row_on_average_it_begins_with_two_rollouts(make_trainer):
    chooser = RolloutChooser(1, 8, prompts=8)
    free = {n: seconds(0.0, 2.0) for n in (2, 4, 8)}
    assert drive(chooser, free, 1 / 8, 6) == [8, 8, 2, 2, 4, 4]
    assert chooser.chosen in (4, 8)
    assert "-> 1 across the batch" in chooser.reason
    trainer = make_trainer(
        "auto", num_generations=1, selection_scope="batch", max_num_rollouts=4, max_steps=5
    )
    trainer.train()
    n = trainer.num_rollouts
    assert [e["pods/num_rollouts"] for e in logged(trainer)] == [4, 4, 2, 2, n]
    assert trainer.rollouts_trained == 5 * 8


def test_in_training_each_generation_has_the_size_that_is_measured_and_the_rest_the_chosen_one(
    make_trainer, caplog, monkeypatch
):
    ticks = count()
    monkeypatch.setattr(clock, "now", lambda: float(next(ticks)))  # every phase takes a second
    caplog.set_level(logging.INFO, logger="podsrl")
    trainer = make_trainer("auto", **SIZES)
    trainer.train()
    n = trainer.num_rollouts
    assert [int(entry["pods/num_rollouts"]) for entry in logged(trainer)] == [*SCHEDULE, n, n]
    assert n == trainer.auto.chosen
    assert trainer.args.num_rollouts == "auto"
    said = [record.message for record in caplog.records if "auto" in record.message]
    assert said == [
        "num_rollouts auto: the first 6 generations measure n = 16, 4, 8",
        f"num_rollouts auto: {trainer.auto.reason}",
    ]
    # two groups per step; each step's rollouts are all logged, and all are training like any other
    table = pq.read_table(Path(trainer.args.output_dir) / "rollouts" / "step_000001.parquet")
    assert (table.num_rows, sum(table["kept"].to_pylist())) == (32, 8)
    assert trainer.rollouts_generated == 2 * sum([*SCHEDULE, n, n])


def test_measuring_resumes_in_the_middle_of_a_generation_exactly(make_trainer):
    fields = {**SIZES, "num_iterations": 2, "max_steps": 4, "save_strategy": "steps"}
    straight = make_trainer("auto", "run", save_steps=3, **fields)
    straight.train()
    folder = Path(straight.args.output_dir)
    shutil.rmtree(folder / "checkpoint-4")
    resumed = make_trainer("auto", "run", save_steps=3, **fields)
    resumed.train(resume_from_checkpoint=str(folder / "checkpoint-3"))
    ours, theirs = resumed.auto.state_dict(), straight.auto.state_dict()
    assert resumed.num_rollouts == ours["n"] == theirs["n"] == SCHEDULE[2]
    assert ours["rewards"] == theirs["rewards"]
    assert ours["timings"][0] == theirs["timings"][0]
    assert [t[-1] for t in ours["timings"]] == [t[-1] for t in theirs["timings"]]
    assert equal(weights(straight), weights(resumed))


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
    for given, expected in [("auto", "auto"), ("48", 48)]:
        (config,) = parser.parse_args_into_dataclasses([*common, "--num_rollouts", given])
        assert config.num_rollouts == expected
    (config,) = parser.parse_args_into_dataclasses(common)
    assert (config.num_rollouts, config.most_rollouts) == (32, 32)  # 4 x TRL's 8


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"num_rollouts": "car"}, "num_rollouts must be an integer or 'auto'; got 'car'"),
        (
            {"num_rollouts": "auto", "max_num_rollouts": 6},
            "num_generations=8 rollouts can't be kept of max_num_rollouts=6",
        ),
        ({"num_rollouts": "auto", "max_num_rollouts": 0.5}, "max_num_rollouts must be an integer"),
    ],
)
def test_a_wrong_auto_says_what_is_allowed(tmp_path, fields, says):
    with pytest.raises(InvalidInputError, match=says):
        PODSConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none", **fields)


@pytest.mark.parametrize("prompts", [1, 8])
def test_eight_generations_tell_enough_to_choose_n_by(prompts):
    """What `auto` sees, with timings that are up to half too long; the loss is by its own model."""
    random = np.random.default_rng(9)
    sizes = [Sizes(prompts, n, 16) for n in candidates(16, 128)]
    truth, costs = BetaRates(0.6, 1.8), Costs.of_rollouts(generate=0.01, update=0.05)
    worth = {cell.sizes: cell.per_second for cell in grid(truth, costs, sizes)}
    lost = []
    for _ in range(60):
        rewards, timings = [], []
        for n in measuring_schedule(candidates(16, 128)):
            rates = random.beta(0.6, 1.8, prompts)
            rewards += [(random.random(n) < rate).astype(float).tolist() for rate in rates]
            tokens, now = random.uniform(25, 75), Sizes(prompts, n, 16)
            seconds = costs.phases(now)
            generate, update = (
                seconds[phase] * tokens / 50 * (1 + 0.5 * random.random() ** 2)
                for phase in ("generate", "update")
            )
            spent = (generate, 0.0, update, tokens)
            timings.append(Timing(now.rollouts, now.rows, *spent))
        cells = grid(measured(rewards), Costs.of_timings(timings), sizes)
        lost.append(1 - worth[recommend(cells, cells[0]).cell.sizes] / max(worth.values()))
    assert np.mean(lost) < 0.05


def test_at_most_eight_generations_measure():
    for most in range(1, 12):
        candidates = [2**i for i in range(most)]
        schedule = measuring_schedule(candidates)
        assert len(schedule) <= 8
        assert {candidates[0], candidates[-1]} <= set(schedule) <= set(candidates)
        assert schedule[0] == candidates[-1]
