"""PODSTrainer on several real processes (gloo): selection, losses and weights as on one."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("trl")

import torch
import worker
import yaml
from accelerate.commands.config.config_args import load_config_from_file

from podslab.evaluation.records import evaluations
from podsrl.rollout_log.run_folder import RunFolder
from support.torchrun import torchrun

LAUNCH = Path(__file__).parents[2] / "lab" / "src" / "podslab" / "configs" / "launch"
WORKER = str(Path(__file__).parent / "worker.py")
ROWS = 12  # per optimiser step: 3 groups of m = 4, generated as 3 x 7 rows

# name -> what differs; n = 7 of odd groups straddles 2 ranks, and 21 rows don't divide by 2
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"log_completions": True, "num_completions_to_print": 0},
    "accumulation": {
        "gradient_accumulation_steps": 2,
        "downsampling_rule": "dynamic_sampling",
        "max_steps": 2,
    },
    "beta": {"beta": 0.1, "max_steps": 2, "downsampling_rule": "top_advantage"},
    "max_contrast": {
        "downsampling_rule": "max_contrast",
        "num_generations": 1,
        "n": 3,
        "max_steps": 2,
    },
    "binary": {"binary": True, "max_steps": 12, "num_iterations": 2},
    "row by row": {  # two rows in a micro-batch of one process, one on each of two
        "binary": True,
        "max_steps": 6,
        "gradient_accumulation_steps": ROWS // 2,
    },
    "normalised": {"multi_objective_aggregation": "normalize_then_sum", "max_steps": 5},
    "one rank": {"downsampling_rule": "worker:first_rows", "n": 16, "max_steps": 3},
    "own_rule": {"downsampling_rule": "worker:loose", "max_steps": 1},
    "straight": {"num_iterations": 2, "downsampling_rule": "variance_top_p"},
    "stopped": {
        "num_iterations": 2,
        "downsampling_rule": "variance_top_p",
        "save_strategy": "steps",
        "save_steps": 1,
        "forget": ["checkpoint-2", "checkpoint-3"],
    },
}

# of rare tool images rank 1 of 2 generates one, and keeps none
AGENTS = ("tools", "environment", "images", "rare tool images")

# on 3 and 4 ranks, which divide 21 rollouts by 3 prompts and not at all
ON_THREE = ("plain", "normalised", "one rank")
ON_FOUR = ("max_contrast", "normalised", "one rank", "tools", "environment", "images")
RUNS = {1: (*VARIANTS, *AGENTS), 2: (*VARIANTS, *AGENTS), 3: ON_THREE, 4: ON_FOUR}


def settings(name: str, out: Path, model: Path, world: int, **more: Any) -> dict[str, Any]:
    merged = {
        "out": str(out / name),
        "model": str(model),
        "n": 7,
        "num_generations": 4,
        "max_steps": 3,
        "max_completion_length": 48,
        "learning_rate": 1e-3,
        "save_strategy": "no",
        "seed": 3,
        # with Adam's usual 1e-8 a gradient of the size of rounding moves a weight like a real one
        "adam_epsilon": 1e-5,
        **VARIANTS.get(name, {}),
        **more,
    }
    rows = ROWS // (world * merged.get("gradient_accumulation_steps", 1))
    return {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 1, **merged}


def agents(name: str, out: Path, world: int) -> dict[str, Any]:
    """The settings of an agent's run, of one of `support.agent_scenarios`."""
    given = settings(name, out, Path(), world, scenario=name, max_steps=2)
    return {key: given[key] for key in given if key not in ("model", "max_completion_length")}


@pytest.fixture(scope="session")
def on_ranks(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """on_ranks(world): the folder with the runs on so many processes; each run once.

    One process is this one. Of two the last run is one in which rank 1 fails.
    """
    done: dict[int, Path] = {}

    def run(world: int) -> Path:
        if world in done:
            return done[world]
        out = done[world] = tmp_path_factory.mktemp(f"ranks{world}")
        runs = []
        for name in RUNS[world]:
            is_agent = name in AGENTS
            runs.append(
                agents(name, out, world) if is_agent else settings(name, out, tiny_model, world)
            )
        if "stopped" in RUNS[world]:
            runs.append(settings("stopped", out, tiny_model, world, resume=True))
            runs[-1].pop("forget")

        if world == 1:
            for one in runs:
                worker.main(one)
            return out
        last = str(runs[-1]["out"])
        if world == 2:
            runs.append(settings("failing", out, tiny_model, world, fail="raise"))
        process = torchrun(world, out / "said", WORKER, json.dumps(runs))
        assert process.returncode == (world == 2)  # of the agent, for a rank that failed
        assert (Path(last) / "result.json").is_file(), process.stderr[-3000:]
        return out

    return run


def result(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name / "result.json").read_text())


def weights(folder: Path, name: str) -> dict[str, torch.Tensor]:
    return torch.load(folder / name / "weights.pt")


def assert_same_training(one: Path, other: Path, name: str, tolerance: float = 1e-5) -> None:
    for key, value in weights(one, name).items():
        torch.testing.assert_close(
            weights(other, name)[key].to(value.dtype), value, atol=tolerance, rtol=0, msg=key
        )
    assert result(one, name)["losses"] == pytest.approx(result(other, name)["losses"], abs=1e-5)


def generations(outcome: dict[str, Any]) -> list[list[tuple[str, float]]]:
    """Rows and advantages of each generation, over all ranks."""
    by_rank = outcome["rows_by_rank"]
    return [
        sorted((ids, round(a, 5)) for rank in by_rank for ids, a in rank[g])
        for g in range(len(by_rank[0]))
    ]


@pytest.mark.slow
def test_selection_losses_and_weights_on_two_ranks_equal_those_on_one(on_ranks):
    one, two = on_ranks(1), on_ranks(2)
    for name in ("plain", "accumulation", "beta", "max_contrast", "normalised", "straight"):
        assert_selected_and_trained_as_on_one(one, two, name)


def assert_selected_and_trained_as_on_one(one: Path, several: Path, name: str) -> None:
    assert generations(result(one, name)) == generations(result(several, name)), name
    assert_same_training(one, several, name)
    assert result(several, name)["aligned"], name
    rows = [[len(g) for g in rank] for rank in result(several, name)["tokens_by_rank"]]
    assert all(counts == rows[0] for counts in rows)


@pytest.mark.slow
def test_three_ranks_train_as_one_where_each_has_its_prompt_and_where_one_has_all_rows(on_ranks):
    one, three = on_ranks(1), on_ranks(3)
    for name in ON_THREE:
        assert_selected_and_trained_as_on_one(one, three, name)
    for name in ("plain", "normalised"):  # whole prompts on each rank
        assert result(three, name)["bytes_moved"] == [0, 0, 0]
    first, *others = result(three, "one rank")["bytes_moved"]
    assert first > 0
    assert others == [0, 0]


@pytest.mark.slow
def test_four_ranks_train_as_one_where_groups_are_split_over_them(on_ranks):
    one, four = on_ranks(1), on_ranks(4)
    for name in ("max_contrast", "normalised", "one rank"):
        assert_selected_and_trained_as_on_one(one, four, name)
        assert sum(result(four, name)["bytes_moved"]) > 0
    first, *others = result(four, "one rank")["bytes_moved"]
    assert first > 0
    assert others == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "name"), [(2, "plain"), (2, "binary"), (3, "plain"), (4, "one rank")]
)
def test_the_parts_of_all_ranks_are_the_log_of_one(on_ranks, world, name):
    whole, parts = RunFolder(on_ranks(1) / name), RunFolder(on_ranks(world) / name)
    assert whole.rollout_steps() == parts.rollout_steps() != []
    for step in whole.rollout_steps():
        names = [path.name for path in parts.rollout_parts(step)]
        assert names == [f"rank_{rank}_of_{world}.parquet" for rank in range(world)]
        expected, found = (run.rollouts(step).to_pandas() for run in (whole, parts))
        pd.testing.assert_frame_equal(found, expected, rtol=1e-6)


@pytest.mark.slow
def test_ranks_with_different_numbers_of_fillers_have_as_many_rows(on_ranks):
    one, two = (result(on_ranks(world), "binary") for world in (1, 2))
    teach = [[[row for row in of if row[1]] for of in generations(each)] for each in (one, two)]
    assert teach[0] == teach[1]
    assert_same_training(on_ranks(1), on_ranks(2), "binary")
    rows = [[len(g) for g in rank] for rank in two["tokens_by_rank"]]
    assert rows[0] == rows[1]
    taught = [[sum(a != 0 for _, a in g) for g in rank] for rank in two["rows_by_rank"]]
    assert taught[0] != taught[1]  # or nothing is tested
    assert min(rows[0]) < ROWS // 2


@pytest.mark.slow
def test_ranks_leave_out_the_same_micro_batches(on_ranks):
    """One that has a row with a gradient on either rank has a pass on both."""
    assert_same_training(on_ranks(1), on_ranks(2), "row by row")
    log = RunFolder(on_ranks(2) / "row by row").metrics()
    passed = [row["pods/rows_passed"] for row in log if "pods/rows_passed" in row]
    teaching = [
        ROWS - row["pods/zero_advantage_rows"] for row in log if "pods/zero_advantage_rows" in row
    ]
    assert sum(teaching) < passed[-1] < len(passed) * ROWS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "scenario"), [(w, s) for w in (2, 4) for s in AGENTS if s in RUNS[w]]
)
def test_agents_on_several_ranks_are_selected_and_trained_as_on_one(on_ranks, world, scenario):
    """With tools, images, and environments that can't be sent and stay where they played."""
    one, several = on_ranks(1), on_ranks(world)
    trained = generations(result(one, scenario))
    assert trained == generations(result(several, scenario))
    assert [len(rows) for rows in trained] == [ROWS, ROWS]
    assert len(set(trained[0])) > ROWS / 2  # rows that can be told apart
    assert_same_training(one, several, scenario)
    rows = [[len(g) for g in rank] for rank in result(several, scenario)["tokens_by_rank"]]
    assert rows == [[ROWS // world] * 2] * world
    assert world == 2 or sum(result(several, scenario)["bytes_moved"]) > 0


@pytest.mark.slow
def test_the_kept_set_on_two_ranks_is_the_brute_force_choice(on_ranks):
    for step in (1, 2, 3):
        table = RunFolder(on_ranks(2) / "plain").rollouts(step).to_pandas()
        assert len(table) == 21
        for _, group in table.groupby("group"):
            assert group["prompt"].nunique() == 1
            rewards = group["reward"].to_numpy()
            best = max(np.var(rewards[list(s)]) for s in itertools.combinations(range(7), 4))
            kept = group["kept"].to_numpy()
            assert kept.sum() == 4
            assert np.var(rewards[kept]) == pytest.approx(best, rel=1e-6)


@pytest.mark.slow
def test_a_rule_that_draws_at_random_keeps_the_same_rows_on_every_rank(on_ranks):
    trained = result(on_ranks(2), "own_rule")["rows_by_rank"]
    table = RunFolder(on_ranks(2) / "own_rule").rollouts(1).to_pandas()
    tokens = sorted(len(json.loads(ids)) for rank in trained for ids, _ in rank[0])
    assert sorted(table[table["kept"]]["tokens"]) == tokens


@pytest.mark.slow
def test_metrics_count_all_ranks(on_ranks):
    one, two = (result(on_ranks(w), "plain")["metrics"] for w in (1, 2))
    totals = ("kept_reward", "kept_tokens", "dropped_tokens", "rollouts_generated")
    for name in ("reward", "reward_std", *(f"pods/{total}" for total in totals)):
        assert one[name] == pytest.approx(two[name], rel=1e-6), name


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2])
def test_resume_between_two_generations_continues_exactly_on_every_rank(on_ranks, world):
    folder = on_ranks(world)
    straight, stopped = weights(folder, "straight"), weights(folder, "stopped")
    assert all(torch.equal(straight[key], stopped[key]) for key in straight)


@pytest.mark.slow
def test_resume_on_another_number_of_ranks_goes_on_and_says_what_differs(
    on_ranks, tiny_model, caplog
):
    folder = on_ranks(2)
    again = settings("stopped", folder, tiny_model, 1, resume=True, max_steps=4)
    again.pop("forget")
    worker.main(again)
    assert "was saved by 2 processes and is resumed on 1" in caplog.text
    assert (folder / "stopped" / "checkpoint-4").is_dir()


@pytest.mark.slow
def test_a_rank_that_raises_ends_the_job(on_ranks):
    said = (on_ranks(2) / "said" / "err").read_text()
    assert "OSError: the grader of rank 1 is down" in said
    assert not (on_ranks(2) / "failing" / "result.json").exists()


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_job(tiny_model, tmp_path):
    failing = settings("failing", tmp_path, tiny_model, 2, fail="die")
    process = torchrun(2, tmp_path / "said", WORKER, json.dumps([failing]))
    assert process.returncode == 1
    # whichever is noticed first: the killed rank, or one that waits for it
    noticed = ("SIGKILL", "closed by peer", "reset by peer")
    assert any(words in process.stderr for words in noticed)
    assert not (tmp_path / "failing" / "result.json").exists()


@pytest.mark.slow
def test_a_rank_that_dies_while_rows_move_ends_the_job_and_nothing_saved_is_lost(
    on_ranks, tiny_model, tmp_path
):
    """Step 2's rows were on their way: a resume generates them again, and the log goes on."""
    saving = {"save_strategy": "steps", "save_steps": 1}
    dying = settings("one rank", tmp_path, tiny_model, 2, fail="die in the exchange", **saving)
    process = torchrun(2, tmp_path / "said", WORKER, json.dumps([dying]))
    assert process.returncode == 1
    noticed = ("SIGKILL", "could not exchange rollouts", "closed by peer", "reset by peer")
    assert any(words in process.stderr for words in noticed)

    run = RunFolder(tmp_path / "one rank")
    assert run.finished() is None
    assert run.rollouts(1).num_rows == 3 * 16
    again = settings("one rank", tmp_path, tiny_model, 2, resume=True, **saving)
    process = torchrun(2, tmp_path / "said again", WORKER, json.dumps([again]))
    assert process.returncode == 0, process.stderr[-3000:]
    assert run.rollout_steps() == [1, 2, 3]
    assert run.finished() is not None
    straight, resumed = weights(on_ranks(2), "one rank"), weights(tmp_path, "one rank")
    assert all(torch.equal(straight[key], resumed[key]) for key in straight)


@pytest.mark.slow
def test_what_can_not_be_sent_is_told_by_all_ranks_in_the_first_step(tiny_model, tmp_path):
    failing = settings("failing", tmp_path, tiny_model, 2, fail="lambda")
    process = torchrun(2, tmp_path / "said", WORKER, json.dumps([failing]))
    assert process.returncode == 1
    said = "what log_extra('handle', ...) was given can't be sent to another process"
    assert said in process.stderr
    assert not (tmp_path / "failing" / "rollouts").exists()


@pytest.fixture
def fsdp2() -> dict[str, str]:
    """The environment that accelerate makes of the shipped launch file."""
    config = yaml.safe_load((LAUNCH / "fsdp2.yaml").read_text())["fsdp_config"]
    env = {name.upper(): str(value).lower() for name, value in config.items()}
    env["FSDP_AUTO_WRAP_POLICY"] = config["fsdp_auto_wrap_policy"]
    env["FSDP_STATE_DICT_TYPE"] = config["fsdp_state_dict_type"]
    return {**env, "ACCELERATE_USE_FSDP": "true"}


@pytest.mark.slow
def test_fsdp2_on_two_ranks_trains_like_one_process_and_pods_train_on_them_is_one_run(
    on_ranks, tiny_model, tmp_path, fsdp2
):
    """30 rollouts per step, 12 kept; 5 problems, which two ranks can't halve.

    Calls of a sharded model are collective: each rank makes two of problems, not 2 and 1.
    """
    config = {
        "task": "arithmetic",
        "task_options": {"min_columns": 2, "max_columns": 2},
        "model_name_or_path": str(tiny_model),
        "output_dir": str(tmp_path / "run"),
        "num_rollouts": 10,
        "num_generations": 4,
        "per_device_train_batch_size": 6,
        "gradient_accumulation_steps": 1,
        "max_completion_length": 32,
        "max_steps": 2,
        "evaluation_problems": 5,
        "evaluation_repeats": 2,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    runs: list[Any] = [settings(name, tmp_path, tiny_model, 2) for name in ("plain", "beta")]
    runs.append(["train", "--config", str(path), "--evaluation_batch_size", "4"])
    process = torchrun(2, tmp_path / "said", WORKER, json.dumps(runs), env=fsdp2)
    assert process.returncode == 0, process.stderr[-3000:]
    for name in ("plain", "beta"):
        assert result(tmp_path, name)["sharded"]
        assert_same_training(on_ranks(1), tmp_path, name)
    assert process.stdout.count("the update sees 12 rows") == 1  # once per run, not per rank
    run = RunFolder(tmp_path / "run")
    assert [row["step"] for row in run.metrics()] == [1, 2]
    assert [(e.step, e.problems) for e in evaluations(run)] == [(0, 5), (2, 5)]
    table = run.rollouts(1)
    assert table is not None
    assert table.num_rows == 30
    assert run.finished() is not None


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "zero2", "zero3"])
def test_the_shipped_launch_configs_are_read_by_accelerate(name):
    config = load_config_from_file(str(LAUNCH / f"{name}.yaml"))
    assert config.num_processes == 8
    assert config.mixed_precision == "bf16"


@pytest.mark.parametrize("world", [1, 2, 3])
def test_trls_table_of_completions_has_the_rollouts_of_all_ranks(on_ranks, world):
    """Against the rollout log; each row with its reward and with what was logged beside it."""
    folder = on_ranks(world) / "plain"
    table = pd.read_parquet(folder / "completions" / "completions_00001.parquet")
    logged = RunFolder(folder).rollouts(1).to_pandas()
    assert table["kept"].sum() == ROWS
    said = [completion[-1]["content"] for completion in table["completion"]]
    rows = zip(said, table["reward"].round(6), table["kept"], strict=True)
    expected = zip(logged["completion"], logged["reward"].round(6), logged["kept"], strict=True)
    assert sorted(rows) == sorted(expected)
    for ids, reward in zip(table["ids"], table["reward"], strict=True):
        assert worker.draw(json.loads(ids)).random() == pytest.approx(reward, abs=1e-6)
