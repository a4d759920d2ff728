"""What a comparison's YAML file means: arms, seeds, parts of it, and what is refused."""

import pytest

pytest.importorskip("trl")

from podslab.comparison.comparison import (
    ComparisonSpec,
    RunKey,
    Shard,
    open_comparison,
    read_comparison,
    refuse_foreign,
)
from podslab.comparison.comparison_config import parse_comparison
from podsrl.errors import InvalidInputError, UnknownNameError


def sizes(spec: ComparisonSpec, arm: str) -> tuple[int, int | None, int, int]:
    args = spec.run_spec(RunKey(arm, 0)).training
    return (
        args.num_rollouts,
        args.num_generations,
        args.per_device_train_batch_size,
        args.gradient_accumulation_steps,
    )


def test_the_three_arms_follow_from_the_settings_of_pods(comparison):
    fields = {"num_rollouts": 64, "num_generations": 16, "per_device_train_batch_size": 16}
    fields["gradient_accumulation_steps"] = 2
    spec = parse_comparison(comparison(fields), "x")
    assert sizes(spec, "pods") == (64, 16, 16, 2)
    assert sizes(spec, "grpo") == (16, 16, 16, 2)
    # 2 prompts x 64 rollouts are 128 rows: 8 micro-batches of 16, the size that PODS has too
    assert sizes(spec, "grpo_ga") == (64, 64, 16, 8)


def test_an_ablation_is_a_few_lines(comparison):
    arms = {
        "max_reward": {"downsampling_rule": "max_reward"},
        "group": {"advantage_baseline": "group"},
        "n16": {"num_rollouts": 16},
        "m2": {"num_generations": 2, "per_device_train_batch_size": 2},
        "grpo2": {"like": "grpo", "num_generations": 2, "per_device_train_batch_size": 2},
        "more": {"like": "grpo_ga", "learning_rate": 5e-4},
    }
    spec = parse_comparison(comparison(arms=arms), "x")
    assert spec.run_spec(RunKey("max_reward", 0)).training.downsampling_rule == "max_reward"
    assert spec.run_spec(RunKey("group", 0)).training.advantage_baseline == "group"
    assert sizes(spec, "n16") == (16, 4, 4, 1)
    assert sizes(spec, "m2") == (8, 2, 2, 1)
    assert sizes(spec, "grpo2") == (2, 2, 2, 1)  # still n = m
    assert sizes(spec, "more") == (8, 8, 4, 2)
    assert spec.run_spec(RunKey("more", 0)).training.learning_rate == 5e-4


def test_where_prompts_get_one_row_on_average_grpo_needs_a_size_of_its_own(comparison):
    fields = {"num_rollouts": 3, "num_generations": 1, "downsampling_rule": "max_contrast"}
    arms = {"pods": {}, "grpo": {"num_generations": 4}, "grpo_ga": {}}
    spec = parse_comparison(comparison(fields, arms=arms), "x")
    assert sizes(spec, "pods") == (3, 1, 4, 1)
    assert sizes(spec, "grpo") == (4, 4, 4, 1)
    assert sizes(spec, "grpo_ga") == (3, 3, 4, 3)
    for arms in ({"grpo": {}}, {"two": {"like": "grpo", "num_generations": 1}}):
        with pytest.raises(InvalidInputError, match="give this arm a number of its own, such as 8"):
            parse_comparison(comparison(fields, arms=arms), "x")


def test_grpo_ga_may_spread_its_rollouts_over_more_prompts_but_not_be_fewer(comparison):
    # as the authors ran it: groups of m, and n / m times as many of them
    own = {"num_rollouts": 4, "num_generations": 4}
    spec = parse_comparison(comparison(arms={"grpo_ga": own}), "x")
    assert sizes(spec, "grpo_ga") == (4, 4, 4, 2)
    own = {**own, "gradient_accumulation_steps": 1}
    with pytest.raises(InvalidInputError, match="generates 4 rollouts per optimiser step and PODS"):
        parse_comparison(comparison(arms={"grpo_ga": own}), "x")


@pytest.mark.parametrize(
    ("keys", "error", "says"),
    [
        ({"arms": {}}, InvalidInputError, "arms are missing"),
        ({"arms": None}, InvalidInputError, "arms are missing"),
        ({"arms": {"pods": {"rule": "random"}}}, InvalidInputError, "unknown config key 'rule'"),
        ({"arms": {"pods": {"seed": 1}}}, InvalidInputError, "'pods' sets seed, which all arms"),
        ({"arms": {"pods": {"evaluation_problems": 9}}}, InvalidInputError, "must share"),
        (
            {"arms": {"x": {"like": "ppo"}}},
            UnknownNameError,
            "like: .ppo. is no arm; did you mean .cppo.",
        ),
        ({"arms": {"../x": {}}}, InvalidInputError, "an arm's name is a folder's"),
        ({"arms": {"tuning": {}}}, InvalidInputError, "an arm can't be named 'tuning'"),
        ({"arms": {"pods": {"num_generations": 1}}}, InvalidInputError, "arm 'pods': "),
        ({"arm": {}}, InvalidInputError, "unknown key 'arm'"),
        ({"budget": {"hours": 1}}, InvalidInputError, "budget must say"),
        ({"budget": {"steps": 2, "training_seconds": 9}}, InvalidInputError, "budget must say"),
        ({"budget": {"steps": 1.5}}, InvalidInputError, "whole number"),
        ({"seeds": [1, 1]}, InvalidInputError, "seeds must be"),
        ({"evaluations": 0}, InvalidInputError, "evaluations must be"),
        ({"settings": {"max_steps": 3}}, InvalidInputError, "max_steps"),
        ({"settings": {"evaluation_problems": 0}}, InvalidInputError, "needs evaluations"),
        (
            {"settings": {"lr_scheduler_type": "linear"}, "budget": {"training_seconds": 9}},
            InvalidInputError,
            "use constant",
        ),
        (
            {
                "arms": {"pods": {"lr_scheduler_type": "cosine"}},
                "budget": {"training_seconds": 9},
            },
            InvalidInputError,
            "arm 'pods': lr_scheduler_type 'cosine' needs to know the number of steps",
        ),
        (
            {
                "settings": {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 0.05},
                "budget": {"training_seconds": 600},
            },
            InvalidInputError,
            "warmup_steps 0.05 is a share of the steps",
        ),
        ({"arms": {"pods": {"temperature": 1.3}}}, InvalidInputError, "all arms must share"),
        ({"arms": {"pods": {"training_clock": "cpu"}}}, InvalidInputError, "all arms must share"),
        ({"budget": {"steps": 2}, "evaluations": 4}, InvalidInputError, "no room for 4 evaluat"),
    ],
)
def test_a_wrong_comparison_is_refused_with_what_is_allowed(comparison, keys, error, says):
    config = comparison(keys.pop("settings", None), **keys)
    with pytest.raises(error, match=says.replace("(", r"\(")):
        parse_comparison(config, "x")


def test_the_home_folder_is_the_same_for_a_comparison_and_its_runs(comparison, monkeypatch):
    monkeypatch.setenv("HOME", "/tmp/at-home")
    spec = parse_comparison(comparison() | {"output_dir": "~/x"}, "x")
    (run, *_) = spec.runs()
    assert spec.run_spec(run).training.output_dir == str(spec.run_folder(run).path)


# ---- the folder and its parts ------------------------------------------------------------------


def test_a_folder_with_another_comparison_is_refused(comparison, tmp_path):
    spec = open_comparison(parse_comparison(comparison(), "x"))
    spec.run_folder(RunKey("pods", 0)).write_config({"arm": "pods", "seed": 0})  # it has begun
    before = (tmp_path / "runs" / "comparison.yaml").read_bytes()

    for change in ({"budget": {"steps": 4}}, {"settings": {"learning_rate": 1e-4}}):
        other = comparison(change.pop("settings", None), **change)
        with pytest.raises(InvalidInputError, match="holds another comparison"):
            open_comparison(parse_comparison(other, "x"))
    assert (tmp_path / "runs" / "comparison.yaml").read_bytes() == before
    with pytest.raises(
        InvalidInputError, match=r"learning_rate: .* -> 0\.0001 \(of grpo, grpo_ga, pods\)\)"
    ):
        open_comparison(parse_comparison(comparison({"learning_rate": 1e-4}), "x"))


def test_a_folder_is_refused_if_it_holds_what_is_no_comparisons(comparison, tmp_path):
    open_comparison(parse_comparison(comparison(), "x"))
    refuse_foreign(tmp_path / "runs")
    other = tmp_path / "other"
    other.mkdir()
    refuse_foreign(other)

    (other / "file").touch()
    for path in (other, other / "file"):
        with pytest.raises(InvalidInputError, match="holds files that are no comparison's"):
            refuse_foreign(path)


def test_a_comparison_may_grow_by_arms_and_seeds(comparison, tmp_path):
    spec = open_comparison(parse_comparison(comparison(), "x"))
    spec.run_folder(RunKey("pods", 0)).write_config({"arm": "pods", "seed": 0})  # it has begun

    arms = {"random": {"downsampling_rule": "random"}}
    grown = open_comparison(parse_comparison(comparison(arms=arms, seeds=[0, 5]), "x"))
    assert list(grown.arms) == ["grpo", "grpo_ga", "pods", "random"]
    assert grown.seeds == (0, 5)
    assert read_comparison(tmp_path / "runs") == grown


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_shards_divide_the_runs_and_keep_the_arms_of_a_seed_together(comparison, count):
    spec = parse_comparison(comparison(seeds=3), "x")
    parts = [Shard(i, count).part_of(spec.runs(), spec.seeds) for i in range(1, count + 1)]
    assert sorted(run for part in parts for run in part) == sorted(spec.runs())
    if count <= 3:
        for part in parts:
            assert {run.seed for run in part if run.arm == "grpo"} == {run.seed for run in part}
            assert len(part) == 3 * len({run.seed for run in part})


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2"])
def test_a_wrong_shard_is_refused(text):
    with pytest.raises(InvalidInputError, match="a shard is i/k"):
        Shard.parse(text)


def test_a_comparison_of_which_no_run_has_begun_is_replaced(comparison, tmp_path):
    open_comparison(parse_comparison(comparison(), "x"))
    changed = open_comparison(parse_comparison(comparison(budget={"steps": 4}), "x"))
    assert read_comparison(tmp_path / "runs") == changed
