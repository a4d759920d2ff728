"""`pods recommend` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl")

from podslab.recommend.choice import grid
from podslab.recommend.costs import Costs, Line, Sizes
from podslab.recommend.measured_run import read_measured
from podslab.recommend.populations import MeasuredRates, parse_pass_rates
from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder, find_runs
from support.synthetic_rollouts import rollouts
from support.synthetic_runs import write_run

BY_ANSWER: dict[str, Any] = {"learning_rate": 1e-3, "reward_weights": [1.0, 0.0, 0.0]}
GIVEN = ["recommend", "--costs", "generate=0.05,update=0.42"]


def fails(arguments: list[str], capsys: Any) -> str:
    assert main(arguments) == 2
    return capsys.readouterr().err


def recommendation_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "recommendation.json").read_text())


def test_given_costs_and_pass_rates_give_a_table_and_a_recommendation(capsys, tmp_path):
    out = tmp_path / "plan"
    flags = ["--pass_rates", "0.02,0.97", "--n", "16,64", "--m", "8,16", "--out", str(out)]
    assert main([*GIVEN, *flags]) == 0
    printed = capsys.readouterr().out
    assert "recommended: 2 prompts, 16 -> 8 learns" in printed
    assert printed.count("recommended") == 2  # in its row of the table, and with its reason
    assert (
        "times as much per second as GRPO with skip_zero_advantage with 1 prompt, 16 -> 16"
        in printed
    )
    assert "  num_rollouts: 16\n  num_generations: 8\n" in printed
    assert "  downsampling_rule: max_variance\n  advantage_baseline: kept\n  per_device" in printed
    assert "  per_device_train_batch_size: 16\n  gradient_accumulation_steps: 1\n" in printed
    plan = recommendation_of(out)
    assert [(c["prompts"], c["n"], c["m"]) for c in plan["cells"]] == [
        (2, 8, 8),
        (2, 16, 8),
        (2, 64, 8),
        (1, 16, 16),
        (1, 64, 16),
    ]
    cells = {(c["n"], c["m"]): c for c in plan["cells"]}
    differ = cells[64, 8]["chance"]
    passed = 16 * differ + (1 - differ) ** 2  # one row at least
    assert cells[64, 8]["seconds"] == pytest.approx(2 * 64 * 0.05 + passed * 0.42)
    ratio = [cells[size]["learned_per_second"] for size in ((64, 8), (16, 16))]
    costs = Costs.of_rollouts(generate=0.05, update=0.42)
    sizes = Sizes(2, 64, 8), Sizes(1, 16, 16)
    cells = grid(parse_pass_rates("0.02,0.97"), costs, sizes)
    assert ratio[0] / ratio[1] == pytest.approx(cells[0].per_second / cells[1].per_second)


def test_rows_can_be_given(capsys, tmp_path):
    flags = ["--pass_rates", "0.5", "--out", str(tmp_path), "--rows", "128"]
    assert main([*GIVEN, *flags]) == 0
    assert "recommended: 64 prompts, 2 -> 2 learns" in capsys.readouterr().out
    found = recommendation_of(tmp_path)["recommended"]
    assert (found["prompts"], found["settings"]["skip_zero_advantage"]) == (64, True)
    assert main([*GIVEN, *flags[:-2], "--m", "1", "--n", "1,4"]) == 0
    assert "recommended: 16 prompts, 4 -> 1 (the best)" in capsys.readouterr().out


@pytest.mark.slow
def test_a_plan_from_given_costs_needs_neither_torch_nor_trl(tmp_path):
    code = (
        "import sys; from podsrl.cli import main\n"
        f"main([*{GIVEN!r}, '--pass_rates', 'beta:1,1', '--m', '2', '--out', {str(tmp_path)!r}])\n"
        "print([m for m in ('torch', 'trl', 'transformers') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip().endswith("[]")


@pytest.mark.slow
def test_a_short_run_measures_and_leaves_a_run_to_plan_from_again(config, capsys, tmp_path):
    out = tmp_path / "plan"
    path = config(**BY_ANSWER, max_steps=500, evaluation_steps=1)
    assert main(["recommend", "--config", path, "--m", "2,8", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    # 2 prompts per step: 8 generations of the sizes, and then up to 32 prompts
    assert "16 training steps at learning rate 0" in printed
    assert "2 prompts x 32, 8, 16, 4 rollouts" in printed
    assert "16 generations of 8, 16, 32, 64 rollouts" in printed
    assert "Ways to spend 8 rows per step" in printed
    assert "recommended: " in printed
    run = RunFolder(out / "run")
    sizes = [run.rollouts(step).num_rows for step in run.rollout_steps()]
    assert sizes == 4 * [64, 16, 32, 8]  # of two prompts
    assert {row["learning_rate"] for row in run.metrics()} == {0.0}  # the model stays as it is
    assert not (run.path / "evaluations.jsonl").exists()
    assert not list(run.path.glob("checkpoint-*"))
    first = recommendation_of(out)
    assert {cell["m"] for cell in first["cells"]} == {2, 4, 8}
    assert first["recommended"]["settings"]["per_device_train_batch_size"] == 8

    again = ["--m", "2,8", "--out", str(tmp_path / "again")]
    assert main(["recommend", str(run.path), *again]) == 0
    assert recommendation_of(tmp_path / "again")["cells"] == first["cells"]
    assert "holds what was measured before" in fails(
        ["recommend", "--config", path, "--out", str(out)], capsys
    )


def test_a_saved_run_gives_its_costs_and_the_groups_it_saw(config, capsys, tmp_path, monkeypatch):
    assert main(["train", "--config", config(**BY_ANSWER)]) == 0
    run = RunFolder(tmp_path / "run")
    found = read_measured(run)
    assert (found.now, found.rollouts, found.generations) == (Sizes(2, 8, 4), (16.0,), 3)
    assert (len(found.rewards_G), found.batch) == (6, (8, 1, 1, True))
    assert isinstance(found.population, MeasuredRates)
    right = sum(found.population.right_G)
    assert found.mean_reward == pytest.approx(right / 48)
    rows = run.metrics()
    lengths = [row["completions/mean_length"] for row in rows]
    mean = sum(lengths) / 3
    updates = [  # by the rows that had a pass, which those of advantage 0 had not
        (max(1, 8 - row["pods/zero_advantage_rows"]), row["pods/seconds_update"] * mean / length)
        for row, length in zip(rows, lengths, strict=True)
    ]
    assert found.costs.update(8) == pytest.approx(Line.through(updates)(8))
    flags = ["--pass_rates", "0.5", "--m", "2", "--out", str(tmp_path / "plan")]
    assert main(["recommend", str(run.path), *flags]) == 0
    printed = capsys.readouterr().out
    assert "3 generations of 16 rollouts\n" in printed
    assert "pass rates  given: 0.5" in printed
    # what it selects by counts
    parts = [name for name in run.rollouts(1).column_names if name.startswith("rewards/")]
    weighted = {**run.config(), "selection_weights": [2.0] + [0.0] * (len(parts) - 1)}
    monkeypatch.setattr(RunFolder, "config", lambda run: weighted)
    tables = [run.rollouts(step) for step in run.rollout_steps()]
    first = np.concatenate([table[parts[0]].to_numpy() for table in tables])
    assert read_measured(run).mean_reward == pytest.approx(2 * first.mean())
    assert len(parts) > 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["recommend"], "give a run's folder, or --config FILE"),
        ([*GIVEN], "or both --costs and --pass_rates"),
        (
            ["recommend", "runs/a", "--config", "arithmetic"],
            "give a run's folder, or --config FILE",
        ),
        ([*GIVEN, "--pass_rates", "0.5", "--learning_rate", "1"], "unknown arguments: --learning"),
        ([*GIVEN, "--pass_rates", "often"], "pass rates 'often' are not understood"),
        (
            ["recommend", "--costs", "generate=1", "--pass_rates", "0.5"],
            "needs both generate and update",
        ),
        (["recommend", "nowhere"], "no run in nowhere"),
        ([*GIVEN, "--pass_rates", "0.5", "--m", "3"], "m must divide the 16 rows per step; got 3"),
        ([*GIVEN, "--pass_rates", "0.5", "--m", "two"], "give whole numbers such as 2,4,8; got"),
    ],
)
def test_a_users_errors_are_one_line(arguments, says, capsys):
    assert says in fails(arguments, capsys)


def test_runs_of_several_arms_give_costs_at_several_sizes(capsys, tmp_path):
    """The cell of a map: predicted speed-ups of its arms from what they measured."""
    # 0.4 s to generate and 0.5 s to update, whatever the sizes: an update of 64 costs no more
    for arm, n, m in [("grpo", 16, 16), ("pods", 64, 16), ("grpo_ga", 64, 64)]:
        run = write_run(tmp_path / arm / "seed-0", arm, 0, [0.1, 0.4], n=n, m=m)
        run.write_rollouts(1, rollouts(groups=3, n=n, m=m))
    assert main(["recommend", str(tmp_path), "--m", "16", "--out", str(tmp_path / "plan")]) == 0
    assert "3 runs: 30 generations of 16, 64 rollouts" in capsys.readouterr().out
    found = read_measured(*find_runs(tmp_path))
    grpo, pods, grpo_ga = Sizes(1, 16, 16), Sizes(1, 64, 16), Sizes(1, 64, 64)
    assert (found.now.rows, found.batch) == (16, (16, 1, 1, False))
    for sizes in (grpo, pods, grpo_ga):
        assert sum(found.costs.phases(sizes, sizes.rows).values()) == pytest.approx(1.0)
    worth = [found.population.signal(one.n, one.m).worth(1) for one in (pods, grpo)]
    assert worth[0] > worth[1] > 0


@pytest.mark.parametrize(("generations", "passes", "steps"), [(1, 2, 2), (2, 2, 4), (2, 1, 2)])
@pytest.mark.parametrize("cut", [0, 1])
def test_rows_and_costs_are_of_a_step_with_all_its_passes(
    tmp_path, generations, passes, steps, cut
):
    """One generation lasts for `steps`: batches of 16 rows of it, each of them `passes` times."""
    batches = steps // passes
    run = RunFolder(tmp_path)
    config = {"num_generations": 2, "num_rollouts": 8, "num_iterations": passes}
    accumulated = {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 4}
    run.write_config({**config, **accumulated, "steps_per_generation": 4 * batches})
    for step in range(generations * steps + cut):
        first = step % steps == 0
        run.append_metrics(
            {
                "step": step + 1,
                "pods/seconds_generate": 3.0 * batches * first,
                "pods/seconds_update": 1.0,
                "pods/rollouts_generated": 64 * batches * (step // steps + 1),
                "pods/rollouts_trained": 16 * batches * (step // steps + 1),
                **({"completions/mean_length": 10.0} if first else {}),
            }
        )
    run.write_rollouts(1, rollouts(groups=8, n=8, m=2))
    found = read_measured(run)
    assert (found.now, found.batch) == (Sizes(8, 8, 2), (4, 4, 1, False))
    assert (found.rollouts, found.generations) == ((64.0,), generations)
    assert found.costs.phases(found.now, 16) == pytest.approx(
        {"generate": 3.0, "score": 0.0, "update": passes}
    )


@pytest.mark.parametrize(
    ("at_once", "fillers", "passed"),
    [(16, 12, 4), (4, 12, 4), (4, 9, 8), (1, 12, 16), (8, 16, 2), (None, 12, 16)],
)
def test_an_update_that_spared_rows_is_charged_for_those_that_had_a_pass(
    tmp_path, at_once, fillers, passed
):
    """Of 16 rows 16 - fillers teach; each micro-batch passes as many, if none was counted."""
    run = RunFolder(tmp_path)
    config = {"num_generations": 2, "num_rollouts": 8, "skip_zero_advantage": True}
    accumulated = {"gradient_accumulation_steps": 16 // (at_once or 16)}
    run.write_config({**config, **accumulated, "per_device_train_batch_size": at_once})
    done = {"pods/rollouts_generated": 64.0, "pods/rollouts_trained": 16.0}
    seconds = {"pods/seconds_generate": 3.0, "pods/seconds_update": 1.0}
    rows = {"pods/kept_rollouts": 16.0, "pods/zero_advantage_rows": float(fillers)}
    run.append_metrics({"step": 1, **done, **seconds, **rows})
    run.write_rollouts(1, rollouts(groups=8, n=8, m=2))
    assert read_measured(run).costs.update(16) == pytest.approx(16 / passed)


@pytest.mark.parametrize(
    ("settings", "may"),
    [
        ({}, False),  # another host's
        ({"skip_zero_advantage": False}, True),
        ({"skip_zero_advantage": False, "beta": 0.1}, False),
        ({"skip_zero_advantage": False, "loss_type": "bnpo"}, False),
        ({"skip_zero_advantage": False, "top_entropy_quantile": 0.2}, False),
        ({"skip_zero_advantage": False, "num_rollouts": 8}, False),  # its user's choice
        ({"skip_zero_advantage": True, "num_rollouts": 8}, True),
    ],
)
def test_whether_passes_may_be_spared_is_read_from_the_run(tmp_path, settings, may):
    run = write_run(tmp_path / "run", "grpo", 0, [0.1, 0.4], n=4, m=4)
    run.write_config({**run.config(), "num_rollouts": 4, "num_generations": 4, **settings})
    run.write_rollouts(1, rollouts(groups=3, n=4, m=4))
    assert read_measured(run).batch.spares == may


def test_one_run_alone_does_not_say_that_more_rollouts_do_not_pay(capsys, tmp_path):
    run = write_run(tmp_path / "run", "grpo", 0, [0.1, 0.4])  # 0.4 s to generate, 0.5 s to update
    run.write_rollouts(1, rollouts(groups=3, n=16, m=16))
    assert main(["recommend", str(run.path), "--m", "4", "--out", str(tmp_path / "plan")]) == 0
    printed = capsys.readouterr().out
    assert "10 generations of 16 rollouts\n" in printed
    assert "generation was timed at one size, 16 rollouts" in printed
    plan = recommendation_of(tmp_path / "plan")
    assert plan["timed_at"] == 16


def test_a_run_without_rollouts_or_steps_says_what_to_do(capsys, tmp_path):
    run = RunFolder(tmp_path / "run")
    run.write_config({"arm": "pods", "seed": 0, "num_generations": 4, "num_rollouts": 8})
    assert "holds no timed steps" in fails(["recommend", str(run.path)], capsys)
    counts = {"pods/rollouts_generated": 8.0, "pods/rollouts_trained": 4.0}
    seconds = {"pods/seconds_update": 1.0, "pods/seconds_generate": 1.0}
    run.append_metrics({"step": 1, **seconds, **counts})
    assert "give --pass_rates" in fails(["recommend", str(run.path)], capsys)


def test_reports_and_recommendations_go_beside_the_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / "runs" / "one", "pods", 0, (0.1, 0.5), n=16, m=4)
    for step in (1, 2):
        run.write_rollouts(step, rollouts(groups=1, n=16, m=4))
    for verb, file in (
        ("report", "report/report.html"),
        ("recommend", "recommendation/recommendation.json"),
    ):
        assert main([verb, "runs/one"]) == 0, capsys.readouterr().err
        assert (tmp_path / "runs" / "one" / file).is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert main(["report", "runs/one"]) == 0  # what stands beside the run is no run of its own
