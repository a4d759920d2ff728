"""PODSTrainer on several real processes (gloo): selection, losses and weights as on one."""

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
from support.brute_force import highest_variance
from support.torchrun import Ended, torchrun

LAUNCH = Path(__file__).parents[2] / "lab" / "src" / "podslab" / "configs" / "launch"
WORKER = str(Path(__file__).parent / "worker.py")
ROWS = 12  # per optimiser step: 3 groups of m = 4, generated as 3 x 7 rows

# What differs in each run. The middle one of three groups of n = 7 is on both of two ranks, and 21
# rows don't divide by 2.
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
    # two rows in a micro-batch of one process, one on each of two
    "row by row": {
        "binary": True,
        "max_steps": 6,
        "gradient_accumulation_steps": ROWS // 2,
    },
    "normalised": {"multi_objective_aggregation": "normalize_then_sum", "max_steps": 5},
    "one rank": {"downsampling_rule": "worker:first_rows", "n": 16, "max_steps": 3},
    "negated": {"override": "NegatedRewards", "max_steps": 2},
    "own advantages": {"override": "AdvantagesByLength", "binary": True, "num_iterations": 2},
    "advantages of tokens": {"override": "AdvantagesOfTokens", "binary": True, "max_steps": 2},
    "own loss": {"override": "DoubledLoss", "downsampling_rule": "max_contrast", "max_steps": 2},
    "doubled": {
        "override": "DoubledAdvantages",
        "downsampling_rule": "top_advantage",
        "skip_zero_advantage": True,
    },
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

# Runs of `support.agent_scenarios`. Of "rare tool images" rank 1 of 2 generates one and keeps none.
AGENTS = ("tools", "environment", "images", "rare tool images")

# The runs by number of ranks. Of 21 rollouts each of 3 ranks has a whole group, and 4 ranks share
# them unevenly.
RUNS: dict[int, tuple[str, ...]] = {
    1: (*VARIANTS, *AGENTS),
    2: (*VARIANTS, *AGENTS),
    3: ("plain", "normalised", "one rank"),
    4: ("max_contrast", "normalised", "one rank", "tools", "environment", "images"),
}

# ---- running -------------------------------------------------------------------------------------


def settings(name: str, out: Path, model: Path, world: int, **more: Any) -> dict[str, Any]:
    """The settings of a run, for `worker.arithmetic_run`."""
    merged = {
        "out": str(out / name),
        "model": str(model),
        "n": 7,
        "max_completion_length": 48,
        "max_steps": 3,
        **shared_settings(),
        **VARIANTS.get(name, {}),
        **more,
    }
    return with_batch_size(merged, world)


def agent_settings(name: str, out: Path, world: int) -> dict[str, Any]:
    """The settings of an agent's run, for `worker.agents_run`."""
    given = {
        "out": str(out / name),
        "scenario": name,
        "n": 7,
        "max_steps": 2,
        **shared_settings(),
    }
    return with_batch_size(given, world)


def shared_settings() -> dict[str, Any]:
    return {
        "num_generations": 4,
        "learning_rate": 1e-3,
        "save_strategy": "no",
        "seed": 3,
        # with Adam's usual 1e-8 a gradient of the size of rounding moves a weight like a real one
        "adam_epsilon": 1e-5,
    }


def with_batch_size(given: dict[str, Any], world: int) -> dict[str, Any]:
    """As many rows on each rank and in each micro-batch that an optimiser step has ROWS in all."""
    accumulation = given.get("gradient_accumulation_steps", 1)
    return {
        "per_device_train_batch_size": ROWS // (world * accumulation),
        "gradient_accumulation_steps": 1,
        **given,
    }


def resumed(run: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The settings of a run that goes on where that one was stopped."""
    goes_on = {name: value for name, value in run.items() if name != "forget"}
    return {**goes_on, "resume": True, **more}


def launch(world: int, said: Path, runs: list[Any], env: dict[str, str] | None = None) -> Ended:
    """The runs one after the other on that many processes; their output goes to a folder."""
    return torchrun(world, said, WORKER, json.dumps(runs), env=env)


@pytest.fixture(scope="session")
def on_ranks(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """on_ranks(world): the folder with the runs on so many processes; each run once.

    One process is this one. Of two the last run is one in which rank 1 fails.
    """
    finished: dict[int, Path] = {}

    def runs_of(world: int, out: Path) -> list[dict[str, Any]]:
        runs = []
        for name in RUNS[world]:
            if name in AGENTS:
                runs.append(agent_settings(name, out, world))
            else:
                runs.append(settings(name, out, tiny_model, world))

        if "stopped" in RUNS[world]:
            runs.append(resumed(settings("stopped", out, tiny_model, world)))
        return runs

    def run_on(world: int) -> Path:
        if world in finished:
            return finished[world]

        out = tmp_path_factory.mktemp(f"ranks{world}")
        finished[world] = out  # before they run: what failed once is not run for every test
        runs = runs_of(world, out)
        if world == 1:
            for run in runs:
                worker.main(run)
            return out

        last_folder = Path(runs[-1]["out"])
        if world == 2:
            runs.append(settings("failing", out, tiny_model, world, fail="raise"))
        process = launch(world, out / "said", runs)

        fails = world == 2
        assert process.returncode == (1 if fails else 0)  # of torchrun, where a rank failed
        assert (last_folder / "result.json").is_file(), process.stderr[-3000:]
        return out

    return run_on


# ---- what a run did ------------------------------------------------------------------------------


def result(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name / "result.json").read_text())


def result_on(world: int, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    """What one run did on so many processes."""
    if world == 1:
        worker.main(given)
    else:
        ended = launch(world, folder / "said", [given])
        assert ended.returncode == 0, ended.stderr[-3000:]
    return result(folder, Path(given["out"]).name)


def weights(folder: Path, name: str) -> dict[str, torch.Tensor]:
    return torch.load(folder / name / "weights.pt")


def generations(outcome: dict[str, Any]) -> list[list[tuple[str, float]]]:
    """Rows and advantages of each generation, over all ranks."""
    by_rank = outcome["rows_by_rank"]

    of_all_ranks = []
    for generation_by_rank in zip(*by_rank, strict=True):
        rows = [
            (ids, round(advantage, 5))
            for rank_rows in generation_by_rank
            for ids, advantage in rank_rows
        ]
        of_all_ranks.append(sorted(rows))
    return of_all_ranks


def row_counts(outcome: dict[str, Any]) -> list[list[int]]:
    """How many rows each rank trained on, one number for each generation."""
    return [lengths(generations_of_rank) for generations_of_rank in outcome["rows_by_rank"]]


def lengths(lists: list[list[Any]]) -> list[int]:
    return [len(items) for items in lists]


def taught(rows: list[Any]) -> list[Any]:
    """The rows of a generation from which the policy learns."""
    return [row for row in rows if row[1] != 0]


def assert_same_training(one: Path, other: Path, name: str) -> None:
    others_weights = weights(other, name)
    for key, value in weights(one, name).items():
        torch.testing.assert_close(
            others_weights[key].to(value.dtype), value, atol=1e-5, rtol=0, msg=key
        )

    assert result(one, name)["losses"] == pytest.approx(result(other, name)["losses"], abs=1e-5)


def assert_selected_and_trained_as_on_one(one: Path, several: Path, name: str) -> None:
    outcome = result(several, name)
    assert generations(result(one, name)) == generations(outcome), name
    assert_same_training(one, several, name)
    assert outcome["aligned"], name

    first_rank, *other_ranks = row_counts(outcome)
    assert all(counts == first_rank for counts in other_ranks)


def assert_only_the_first_rank_sends(folder: Path) -> None:
    """Of the run whose kept rows are all of the first rank."""
    first, *others = result(folder, "one rank")["bytes_moved"]
    assert first > 0
    assert not any(others)


# ---- as on one process ---------------------------------------------------------------------------


@pytest.mark.slow
def test_selection_losses_and_weights_on_two_ranks_equal_those_on_one(on_ranks):
    for name in ("plain", "accumulation", "beta", "max_contrast", "normalised", "straight"):
        assert_selected_and_trained_as_on_one(on_ranks(1), on_ranks(2), name)


@pytest.mark.slow
def test_each_rank_reads_its_prompts_once(tiny_model, tmp_path):
    """The middle one of three prompts is on both ranks, with 4 of its 7 rollouts and with 3."""

    def run(name: str, world: int, **more: Any) -> dict[str, Any]:
        more |= {"greedy": True, "skip_zero_advantage": False, "max_steps": 1}
        given = settings(name, tmp_path, tiny_model, world, **more)
        return result_on(world, tmp_path, given)

    read_by_each = run("each", 1, read_prompts_once=False)
    on_one = run("one", 1)
    on_two = run("two", 2)
    assert generations(read_by_each) == generations(on_one) == generations(on_two)

    (((rows, length), _),) = read_by_each["first_passes"]
    assert rows == 3 * 7
    assert on_one["first_passes"] == [[[3, length - 1], [21, 1]]]
    assert on_two["first_passes"] == [[[2, length - 1], [11, 1]]] * 2


@pytest.mark.slow
def test_rows_are_weighed_on_two_ranks_as_on_one(tiny_model, tmp_path):
    """The choice of the first rank is that of all, and so are the weights of what it kept."""

    def run(name: str, world: int) -> dict[str, Any]:
        more = {"downsampling_rule": "worker:loose_and_weighed", "skip_zero_advantage": False}
        return result_on(world, tmp_path, settings(name, tmp_path, tiny_model, world, **more))

    on_one = run("one", 1)
    on_two = run("two", 2)
    assert generations(on_one) == generations(on_two)
    assert on_one["losses"] == pytest.approx(on_two["losses"], abs=1e-5)
    assert on_two["aligned"]

    # Unweighed advantages of the kept rewards sum to 0.
    first = generations(on_two)[0]
    assert abs(sum(advantage for _, advantage in first)) > 0.01


#: Of three prompts some are on two ranks, and a rank may have none that is still open. Of six
#: prompts, one in a round, the ranks that have none of it generate a rollout all the same.
ROUNDS: dict[str, dict[str, Any]] = {
    "of rollouts": {"often": True, "rollouts_per_round": 3, "n": 10},
    "of prompts": {
        "binary": True,
        "method": "dynamic-sampling",
        "prompts_per_round": 1,
        "n": 8,
        "num_generations": 2,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", ROUNDS)
def test_ranks_make_the_same_rounds_as_one(tiny_model, tmp_path, world, kind):
    def run(name: str, world: int) -> dict[str, Any]:
        given = settings(name, tmp_path, tiny_model, world, **ROUNDS[kind], max_steps=3)
        return result_on(world, tmp_path, given)

    one = run("one", 1)
    several = run("several", world)
    assert generations(one) == generations(several)
    assert several["aligned"]
    for name, value in weights(tmp_path, "one").items():
        torch.testing.assert_close(weights(tmp_path, "several")[name], value, atol=1e-5, rtol=0)

    names = ("reward", "pods/rounds", "pods/generated_share", "pods/tokens_generated")
    for name in names:
        assert one["metrics"][name] == pytest.approx(several["metrics"][name], rel=1e-6), name
    assert one["metrics"]["pods/generated_share"] < 1
    assert one["metrics"]["pods/rounds"] > 1

    whole = RunFolder(tmp_path / "one")
    parts = RunFolder(tmp_path / "several")
    for step in whole.rollout_steps():
        columns = ["group", "rollout", "round", "reward", "kept"]
        expected = whole.rollouts(step).to_pandas()[columns]
        pd.testing.assert_frame_equal(parts.rollouts(step).to_pandas()[columns], expected)


@pytest.mark.slow
def test_three_ranks_train_as_one_where_each_has_its_prompt_and_where_one_has_all_rows(on_ranks):
    three = on_ranks(3)
    for name in RUNS[3]:
        assert_selected_and_trained_as_on_one(on_ranks(1), three, name)

    for name in ("plain", "normalised"):  # whole prompts on each rank
        assert result(three, name)["bytes_moved"] == [0, 0, 0]
    assert_only_the_first_rank_sends(three)


@pytest.mark.slow
def test_four_ranks_train_as_one_where_groups_are_split_over_them(on_ranks):
    four = on_ranks(4)
    for name in ("max_contrast", "normalised", "one rank"):
        assert_selected_and_trained_as_on_one(on_ranks(1), four, name)
        assert sum(result(four, name)["bytes_moved"]) > 0

    assert_only_the_first_rank_sends(four)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "name"), [(2, "plain"), (2, "binary"), (3, "plain"), (4, "one rank")]
)
def test_the_parts_of_all_ranks_are_the_log_of_one(on_ranks, world, name):
    whole = RunFolder(on_ranks(1) / name)
    parts = RunFolder(on_ranks(world) / name)

    steps = whole.rollout_steps()
    assert steps != []
    assert parts.rollout_steps() == steps
    for step in steps:
        file_names = [path.name for path in parts.rollout_parts(step)]
        assert file_names == [f"rank_{rank}_of_{world}.parquet" for rank in range(world)]

        expected = whole.rollouts(step).to_pandas()
        together = parts.rollouts(step).to_pandas()
        pd.testing.assert_frame_equal(together, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["negated", "own advantages", "advantages of tokens", "own loss", "doubled"]
)
def test_a_subclass_of_the_users_trains_on_two_ranks_as_on_one(on_ranks, name):
    assert_same_training(on_ranks(1), on_ranks(2), name)
    one, two = (result(on_ranks(world), name) for world in (1, 2))
    assert [sorted(rows) for rows in generations(one)] == [
        sorted(rows) for rows in generations(two)
    ]


@pytest.mark.slow
def test_ranks_with_different_numbers_of_fillers_have_as_many_rows(on_ranks):
    """Fillers are rows of advantage 0; the rank that learns from fewer rows has more of them."""
    one = result(on_ranks(1), "binary")
    two = result(on_ranks(2), "binary")

    taught_on_one = [taught(rows) for rows in generations(one)]
    taught_on_two = [taught(rows) for rows in generations(two)]
    assert taught_on_one == taught_on_two
    assert_same_training(on_ranks(1), on_ranks(2), "binary")

    first_rank, second_rank = two["rows_by_rank"]
    first_taught = [len(taught(rows)) for rows in first_rank]
    second_taught = [len(taught(rows)) for rows in second_rank]
    assert first_taught != second_taught  # or nothing is tested

    first_rows, second_rows = row_counts(two)
    assert first_rows == second_rows
    assert min(first_rows) < ROWS // 2


@pytest.mark.slow
def test_ranks_leave_out_the_same_micro_batches(on_ranks):
    """One that has a row with a gradient on either rank has a pass on both."""
    assert_same_training(on_ranks(1), on_ranks(2), "row by row")

    metrics = RunFolder(on_ranks(2) / "row by row").metrics()
    rows_passed = [step["pods/rows_passed"] for step in metrics if "pods/rows_passed" in step]
    teaching_rows = [
        ROWS - step["pods/zero_advantage_rows"]
        for step in metrics
        if "pods/zero_advantage_rows" in step
    ]
    # more than those with a gradient, as they share micro-batches, and fewer than all
    total_passed = rows_passed[-1]
    assert sum(teaching_rows) < total_passed < len(rows_passed) * ROWS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "scenario"),
    [
        *[(2, scenario) for scenario in AGENTS],
        *[(4, scenario) for scenario in AGENTS if scenario in RUNS[4]],
    ],
)
def test_agents_on_several_ranks_are_selected_and_trained_as_on_one(on_ranks, world, scenario):
    """With tools, images, and environments that can't be sent and stay where they played."""
    one = on_ranks(1)
    several = on_ranks(world)
    trained = generations(result(one, scenario))
    outcome = result(several, scenario)

    assert generations(outcome) == trained
    assert_same_training(one, several, scenario)
    assert lengths(trained) == [ROWS, ROWS]
    assert len(set(trained[0])) > ROWS / 2  # rows that can be told apart

    assert row_counts(outcome) == [[ROWS // world] * 2] * world
    if world == 4:  # which split the groups
        assert sum(outcome["bytes_moved"]) > 0


@pytest.mark.slow
def test_the_kept_set_on_two_ranks_is_the_brute_force_choice(on_ranks):
    run = RunFolder(on_ranks(2) / "plain")
    for step in (1, 2, 3):
        table = run.rollouts(step).to_pandas()
        assert len(table) == 3 * 7

        for _, group in table.groupby("group"):
            assert group["prompt"].nunique() == 1
            rewards = group["reward"].to_numpy()
            kept_rewards = rewards[group["kept"].to_numpy()]
            assert len(kept_rewards) == 4
            expected = pytest.approx(highest_variance(rewards, 4), rel=1e-6)
            assert np.var(kept_rewards) == expected


@pytest.mark.slow
def test_a_rule_that_draws_at_random_keeps_the_same_rows_on_every_rank(on_ranks):
    folder = on_ranks(2)
    trained_lengths = []
    for of_rank in result(folder, "own_rule")["rows_by_rank"]:
        trained_lengths += [len(json.loads(ids)) for ids, _ in of_rank[0]]

    table = RunFolder(folder / "own_rule").rollouts(1).to_pandas()
    kept_lengths = table[table["kept"]]["tokens"]
    assert sorted(kept_lengths) == sorted(trained_lengths)


@pytest.mark.slow
def test_metrics_count_all_ranks(on_ranks):
    one = result(on_ranks(1), "plain")["metrics"]
    two = result(on_ranks(2), "plain")["metrics"]
    for name in (
        "reward",
        "reward_std",
        "pods/kept_reward",
        "pods/kept_tokens",
        "pods/dropped_tokens",
        "pods/rollouts_generated",
    ):
        assert one[name] == pytest.approx(two[name], rel=1e-6), name


@pytest.mark.parametrize("world", [1, 2, 3])
def test_trls_table_of_completions_has_the_rollouts_of_all_ranks(on_ranks, world):
    """Against the rollout log; each row with its reward and with what was logged beside it."""
    folder = on_ranks(world) / "plain"
    table = pd.read_parquet(folder / "completions" / "completions_00001.parquet")
    logged = RunFolder(folder).rollouts(1).to_pandas()

    texts = [completion[-1]["content"] for completion in table["completion"]]
    rows = zip(texts, table["reward"].round(6), table["kept"], strict=True)
    expected = zip(logged["completion"], logged["reward"].round(6), logged["kept"], strict=True)
    assert sorted(rows) == sorted(expected)
    assert table["kept"].sum() == ROWS

    for ids, reward in zip(table["ids"], table["reward"], strict=True):
        drawn = worker.draw(json.loads(ids)).random()
        assert drawn == pytest.approx(reward, abs=1e-6)


# ---- resuming ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2])
def test_resume_between_two_generations_continues_exactly_on_every_rank(on_ranks, world):
    straight = weights(on_ranks(world), "straight")
    stopped = weights(on_ranks(world), "stopped")
    assert all(torch.equal(straight[key], stopped[key]) for key in straight)


@pytest.mark.slow
def test_resume_on_another_number_of_ranks_goes_on_and_says_what_differs(
    on_ranks, tiny_model, caplog
):
    folder = on_ranks(2)
    stopped = settings("stopped", folder, tiny_model, world=1)
    worker.main(resumed(stopped, max_steps=4))

    assert "was saved by 2 processes and is resumed on 1" in caplog.text
    assert (folder / "stopped" / "checkpoint-4").is_dir()


# ---- a rank that fails ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rank_that_raises_ends_the_job(on_ranks):
    folder = on_ranks(2)
    error_output = (folder / "said" / "err").read_text()
    assert "OSError: the grader of rank 1 is down" in error_output
    assert not (folder / "failing" / "result.json").exists()


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_job(tiny_model, tmp_path):
    failing = settings("failing", tmp_path, tiny_model, 2, fail="die")
    process = launch(2, tmp_path / "said", [failing])

    assert process.returncode == 1
    # whichever is noticed first: the killed rank, or one that waits for it
    signs = ("SIGKILL", "closed by peer", "reset by peer")
    assert any(sign in process.stderr for sign in signs)
    assert not (tmp_path / "failing" / "result.json").exists()


@pytest.mark.slow
def test_a_rank_that_dies_while_rows_move_ends_the_job_and_nothing_saved_is_lost(
    on_ranks, tiny_model, tmp_path
):
    """Step 2's rows were on their way: a resume generates them again, and the log goes on."""
    saving = {"save_strategy": "steps", "save_steps": 1}
    dying = settings("one rank", tmp_path, tiny_model, 2, fail="die in the exchange", **saving)
    process = launch(2, tmp_path / "said", [dying])

    assert process.returncode == 1
    signs = ("SIGKILL", "could not exchange rollouts", "closed by peer", "reset by peer")
    assert any(sign in process.stderr for sign in signs)
    run = RunFolder(tmp_path / "one rank")
    assert run.finished() is None
    assert run.rollouts(1).num_rows == 3 * 16

    process = launch(2, tmp_path / "said again", [resumed(dying, fail=None)])

    assert process.returncode == 0, process.stderr[-3000:]
    assert run.rollout_steps() == [1, 2, 3]
    assert run.finished() is not None
    straight = weights(on_ranks(2), "one rank")
    again = weights(tmp_path, "one rank")
    assert all(torch.equal(straight[key], again[key]) for key in straight)


@pytest.mark.slow
def test_what_can_not_be_sent_is_told_by_all_ranks_in_the_first_step(tiny_model, tmp_path):
    failing = settings("failing", tmp_path, tiny_model, 2, fail="lambda")
    process = launch(2, tmp_path / "said", [failing])

    assert process.returncode == 1
    message = "what log_extra('handle', ...) was given can't be sent to another process"
    assert message in process.stderr
    assert not (tmp_path / "failing" / "rollouts").exists()


@pytest.mark.slow
def test_a_setting_that_one_rank_alone_changes_is_named_on_both(tiny_model, tmp_path):
    failing = settings("failing", tmp_path, tiny_model, 2, fail="settings")
    process = launch(2, tmp_path / "said", [failing])
    assert process.returncode
    assert "baseline differs between processes: kept, group." in process.stderr


# ---- sharded models ------------------------------------------------------------------------------


@pytest.fixture
def fsdp2() -> dict[str, str]:
    """The environment that accelerate makes of the shipped launch file."""
    config = yaml.safe_load((LAUNCH / "fsdp2.yaml").read_text())["fsdp_config"]
    env = {name.upper(): str(value).lower() for name, value in config.items()}
    env["FSDP_AUTO_WRAP_POLICY"] = config["fsdp_auto_wrap_policy"]
    env["FSDP_STATE_DICT_TYPE"] = config["fsdp_state_dict_type"]
    return {**env, "ACCELERATE_USE_FSDP": "true"}


#: 3 prompts of n = 10 rollouts, of which 12 are kept; 5 problems, which two ranks can't halve.
TRAIN_COMMAND: dict[str, Any] = {
    "task": "arithmetic",
    "task_options": {"min_columns": 2, "max_columns": 2},
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


@pytest.mark.slow
def test_fsdp2_on_two_ranks_trains_like_one_process_and_pods_train_on_them_is_one_run(
    on_ranks, tiny_model, tmp_path, fsdp2
):
    """Calls of a sharded model are collective: each rank makes two of problems, not 2 and 1."""
    model_and_folder = {
        "model_name_or_path": str(tiny_model),
        "output_dir": str(tmp_path / "run"),
    }
    config_file = tmp_path / "config.yaml"
    config_file.write_text(yaml.safe_dump({**TRAIN_COMMAND, **model_and_folder}))

    process = launch(
        2,
        tmp_path / "said",
        [
            settings("plain", tmp_path, tiny_model, 2),
            settings("beta", tmp_path, tiny_model, 2),
            ["train", "--config", str(config_file), "--evaluation_batch_size", "4"],
        ],
        env=fsdp2,
    )
    assert process.returncode == 0, process.stderr[-3000:]

    for name in ("plain", "beta"):
        assert result(tmp_path, name)["sharded"]
        assert_same_training(on_ranks(1), tmp_path, name)

    assert process.stdout.count("the update sees 12 rows") == 1  # once per run, not per rank
    run = RunFolder(tmp_path / "run")
    assert run.finished() is not None
    assert run.rollouts(1).num_rows == 3 * 10
    assert [row["step"] for row in run.metrics()] == [1, 2]
    measured = [(evaluation.step, evaluation.problems) for evaluation in evaluations(run)]
    assert measured == [(0, 5), (2, 5)]


@pytest.mark.slow
def test_sharded_weights_are_read_by_each_rollout_and_rounds_work_with_them(
    on_ranks, tiny_model, tmp_path, fsdp2
):
    """Passes of sharded weights are collective, so all ranks must make the same ones."""
    greedy = {"greedy": True, "skip_zero_advantage": False, "max_steps": 1}

    def given(name: str, world: int, **more: Any) -> dict[str, Any]:
        return settings(name, tmp_path, tiny_model, world, **greedy, **more)

    read_by_each = result_on(1, tmp_path, given("each", 1, read_prompts_once=False))
    process = launch(
        2,
        tmp_path / "said",
        [
            given("sharded", 2, read_prompts_once=True),
            given("in rounds", 2, read_prompts_once=True, rollouts_per_round=4),
        ],
        env=fsdp2,
    )
    assert process.returncode == 0, process.stderr[-3000:]

    sharded = result(tmp_path, "sharded")
    assert sharded["sharded"]
    (reason,) = sharded["why_each_reads"]
    assert reason.startswith("the weights are spread over processes")
    assert generations(read_by_each) == generations(sharded)
    (((rows, length), _),) = read_by_each["first_passes"]
    assert rows == 3 * 7
    assert [passes[0] for passes in sharded["first_passes"]] == [[11, length]] * 2
    assert generations(result(tmp_path, "in rounds")) == generations(sharded)


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "zero2", "zero3"])
def test_the_shipped_launch_configs_are_read_by_accelerate(name):
    config = load_config_from_file(str(LAUNCH / f"{name}.yaml"))
    assert config.num_processes == 8
    assert config.mixed_precision == "bf16"
