"""Mistakes that newcomers made with the trainer: each has one line that says what to do."""

import errno
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, IterableDataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from podsrl.errors import (
    InvalidInputError,
    MissingDependencyError,
    RewardError,
    UnsupportedError,
    how_to_install,
    needed,
)
from podsrl.rollout_log.files import DamagedFileWarning
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import PODSConfig, PODSTrainer
from podsrl.trl.checkpoint import last_complete
from podsrl.trl.cost import STEPS_OF_COST
from podsrl.trl.reporting import STEPS_WITHOUT_REWARD
from podsrl.trl.versions import check_version
from support.trl_runs import COMMON, digits, equal, logged, table_of, weights

CPU: dict[str, Any] = {"use_cpu": True, "bf16": False, "report_to": "none"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"num_rollout": 8}, "no field 'num_rollout'; did you mean 'num_rollouts'"),
        ({"n": 8}, "no field 'n'; did you mean 'num_rollouts'"),
        ({"m": 8}, "no field 'm'; did you mean 'num_generations'"),
        ({"down_sampling_rule": "random"}, "did you mean 'downsampling_rule'"),
        ({"learning_rat": 1e-5}, "did you mean 'learning_rate'"),
        ({"learning_rate": "1e-5"}, r"learning_rate='1e-5' is text, .* 1.0e-5 as a number"),
        ({"beta": "0.1"}, "beta='0.1' is text"),
        ({"save_strategy": False}, "save_strategy=False; write 'no' in quotes"),
        ({"eval_strategy": False}, "eval_strategy=False; write 'no' in quotes"),
        (
            {"method": "max_contrast", "scale_rewards": "batch"},
            "method='max_contrast', which has advantage_baseline='group' needs scale_rewards",
        ),
        ({"method": "cppo", "num_rollouts": 8, "num_generations": 8}, "and 8 of 8 are kept"),
        (
            {"method": "grpo", "downsampling_rule": "max_reward"},
            "method='grpo' trains on all rollouts, and downsampling_rule='max_reward' has nothing",
        ),
    ],
)
def test_a_mistyped_setting_says_what_was_meant(given, says):
    with pytest.raises(InvalidInputError, match=says):
        PODSConfig("unused", **CPU, **given)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("max_steps", 0, "1 or more, and -1"),
        ("max_steps", -3, "1 or more, and -1"),
        ("num_train_epochs", -2, "above 0"),
        ("num_train_epochs", 0, "above 0"),
        ("learning_rate", -1e-3, "0 or more"),
        ("temperature", 0.0, "above 0"),
        ("temperature", float("nan"), "above 0"),
        ("top_p", 90, "above 0, up to 1"),
        ("top_k", -5, "0 or more, and -1"),
        ("min_p", 2.0, "0 or more, up to 1"),
        ("beta", -0.1, "0 or more"),
        ("epsilon", -0.2, "0 or more"),
        ("max_completion_length", 0, "1 or more"),
        ("per_device_train_batch_size", -8, "1 or more"),
        ("gradient_accumulation_steps", 0, "1 or more"),
        ("num_iterations", 0, "1 or more"),
        ("save_steps", 0, "above 0"),
    ],
)
def test_a_number_without_a_meaning_is_told_before_a_model_is_loaded(field, value, allowed):
    with pytest.raises(InvalidInputError, match=f"{field}={value!r}; allowed: {allowed}"):
        PODSConfig("unused", **CPU, **{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_steps", -1), ("learning_rate", 0.0), ("top_k", -1), ("top_p", 1.0), ("beta", 0)],
)
def test_numbers_at_the_ends_of_their_range_are_taken(field, value):
    assert getattr(PODSConfig("unused", **CPU, **{field: value}), field) == value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"gradient_checkpointing": "no"},
            "gradient_checkpointing must be True or False; got 'no', and",
        ),
        ({"log_completions": "false"}, "log_completions must be True or False; got 'false'"),
        (
            {"mask_truncated_completions": "False"},
            "mask_truncated_completions must be True or False",
        ),
        ({"shuffle_dataset": "no"}, "shuffle_dataset must be True or False; got 'no'"),
        ({"rollout_log": "off"}, "rollout_log must be True or False; got 'off'"),
        ({"max_steps": None}, "max_steps=None, and must be a number; leave it out for -1"),
        ({"learning_rate": None}, "learning_rate=None, and must be a number"),
        ({"max_steps": 2.5}, "max_steps=2.5, and must be a whole number"),
        ({"num_rollouts": 8.5}, "num_rollouts=8.5, and must be a whole number"),
        ({"reward_weights": [0.0, 0.0]}, "a finite number for each reward function, not all"),
        ({"reward_weights": [float("nan")]}, "reward_weights=.*a finite number for each"),
    ],
)
def test_a_value_of_another_kind_is_told(given, says):
    with pytest.raises(InvalidInputError, match=says):
        PODSConfig("unused", **CPU, **given)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lr", "learning_rate"),
        ("epochs", "num_train_epochs"),
        ("batch_size", "per_device_train_batch_size"),
        ("max_new_tokens", "max_completion_length"),
        ("group_size", "num_rollouts"),
        ("kl_coef", "beta"),
    ],
)
def test_a_field_by_the_name_that_other_trainers_have_is_told(name, meant):
    with pytest.raises(InvalidInputError, match=f"no field '{name}'; did you mean '{meant}'"):
        PODSConfig("unused", **CPU, **{name: 1})


def test_a_rule_in_the_place_of_a_method_is_told():
    with pytest.raises(KeyError, match="that is a rule"):
        PODSConfig("unused", **CPU, method="max_variance")


def test_the_config_is_still_one_that_is_read_from_a_command_line():
    from transformers import HfArgumentParser

    words = ["--output_dir", "out", "--num_rollouts", "16", "--use_cpu", "--bf16", "False"]
    (config,) = HfArgumentParser(PODSConfig).parse_args_into_dataclasses(words)
    assert (config.num_rollouts, config.num_generations) == (16, 8)


class Scorer:
    def __call__(self, completions: list[Any], **columns: Any) -> list[float]:
        return digits(completions)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"reward_funcs": Scorer}, r"the class Scorer: give an instance of it, Scorer\(\)"),
        ({"reward_funcs": [digits, Scorer]}, "the class Scorer"),
    ],
)
def test_a_class_in_the_place_of_a_reward_function_is_told(make_trainer, fields, says):
    with pytest.raises(InvalidInputError, match=says):
        make_trainer(8, **fields)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"reward_function": digits}, "no argument 'reward_function'; did you mean 'reward_funcs'"),
        ({"train_datset": None}, "did you mean 'train_dataset'"),
    ],
)
def test_a_mistyped_argument_of_the_trainer_is_told(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        PODSTrainer("some/model", args=PODSConfig("unused", **CPU), **arguments)


@pytest.mark.parametrize("reward", ["some/model", digits])
def test_a_function_in_the_place_of_the_model_is_told(reward):
    says = "are swapped" if isinstance(reward, str) else "the model comes first"
    with pytest.raises(InvalidInputError, match=f"model is the function 'digits'; .*{says}"):
        PODSTrainer(digits, reward, args=PODSConfig("unused", **CPU))


@pytest.mark.parametrize("given", [print, "wandb", 3, {"a": 1}, len])
def test_what_is_no_callback_is_told(make_trainer, given):
    with pytest.raises(InvalidInputError, match=r"callbacks has .*TrainerCallback"):
        make_trainer(8, callbacks=[given])


def test_a_path_without_a_model_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for model, says in (
        (tmp_path / "nowhere", "no such folder"),
        (str(tmp_path / "nowhere"), "no such folder"),
        ("./nowhere", "no such folder"),
        (str(tmp_path / "file"), "no such folder"),
        (str(tmp_path / "empty"), "neither config.json nor adapter_config.json"),
    ):
        with pytest.raises(InvalidInputError, match=f"model is .*{says}"):
            PODSTrainer(model, digits, args=PODSConfig("unused", **CPU))


@pytest.mark.parametrize("role", ["usr", "human", "User", "question", "bot"])
def test_messages_of_which_the_chat_template_makes_nothing_are_told(make_trainer, role):
    data = Dataset.from_list([{"prompt": [{"role": role, "content": "1+1"}]}] * 16)
    with pytest.raises(InvalidInputError, match=f"whose roles are '{role}'"):
        make_trainer(8, data=data)


@pytest.mark.parametrize("column", ["completions", "prompts"])
def test_a_column_by_a_name_of_trls_is_told(make_trainer, dataset, column):
    data = dataset.add_column(column, ["x"] * len(dataset))
    with pytest.raises(InvalidInputError, match=f"column '{column}'.* rename it"):
        make_trainer(8, data=data)


@pytest.mark.parametrize("missing", ["content", "role"])
def test_messages_that_lack_a_part_are_told(make_trainer, missing):
    other = "role" if missing == "content" else "content"
    data = Dataset.from_list([{"prompt": [{other: "user"}]}] * 16)
    with pytest.raises(InvalidInputError, match=f"no '{missing}'; a message is"):
        make_trainer(8, data=data)


def test_a_column_that_the_evaluation_alone_lacks_is_told_before_training(make_trainer, dataset):
    def graded(completions: list[Any], answer: list[str], **columns: Any) -> list[float]:
        return digits(completions)

    bare = dataset.select(range(4)).remove_columns("answer")
    for given, where in ((bare, "eval_dataset"), ({"hard": bare}, r"eval_dataset\['hard'\]")):
        with pytest.raises(InvalidInputError, match=f"'answer', and {where} has no such column"):
            make_trainer(8, reward_funcs=graded, eval_dataset=given)


def test_a_stream_with_too_few_prompts_does_not_end_with_success(make_trainer, dataset):
    row = dataset[0]
    stream = IterableDataset.from_generator(lambda: iter([row]))
    with pytest.raises(InvalidInputError, match=r"fewer prompts than one generation takes \(2\)"):
        make_trainer(8, data=stream).train()


# ---- rewards -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "generations",
    [{}, {"gradient_accumulation_steps": 2, "steps_per_generation": 1}, {"num_iterations": 2}],
    ids=["one for each step", "two for each step", "one for two steps"],
)
def test_where_no_rollout_gets_a_reward_the_true_line_stands_alone_and_the_run_ends(
    make_trainer, caplog, generations
):
    def down(completions: list[Any], **columns: Any) -> list[None]:
        return [None] * len(completions)

    steps = STEPS_WITHOUT_REWARD + 5
    trainer = make_trainer(8, reward_funcs=down, max_steps=steps, **generations)
    before = weights(trainer)
    with pytest.raises(RewardError, match="for 20 steps no rollout got a reward: down"):
        trainer.train()
    assert trainer.state.global_step == STEPS_WITHOUT_REWARD - 1
    assert equal(before, weights(trainer))
    said = [r.message for r in caplog.records if "no rollout got a reward" in r.message]
    assert said[0].startswith("step 1: no rollout got a reward: down returned None or NaN")
    assert not [r for r in caplog.records if "rewards of a prompt are equal" in r.message]


def test_a_grader_that_comes_back_is_waited_for(make_trainer):
    calls = []

    def flaky(completions: list[Any], **columns: Any) -> Any:
        calls.append(1)
        return [None] * len(completions) if len(calls) % 5 else digits(completions)

    trainer = make_trainer(8, reward_funcs=flaky, max_steps=STEPS_WITHOUT_REWARD + 4)
    trainer.train()
    assert trainer.state.global_step == STEPS_WITHOUT_REWARD + 4


def stops(completions: list[Any], **columns: Any) -> list[float]:
    return [next(iter(())) for _ in completions]


def empties(completions: list[Any], **columns: Any) -> list[float]:
    completions.clear()
    raise ValueError("nothing is left")


def empties_and_returns(completions: list[Any], **columns: Any) -> list[float]:
    rewards = digits(completions)
    completions.clear()
    return rewards


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (stops, "reward function 'stops' failed at step 1: StopIteration"),
        (empties, "'empties' failed at step 1: ValueError: nothing is left. It was given 16 comp"),
    ],
)
def test_a_reward_function_that_misbehaves_is_named(make_trainer, function, says):
    with pytest.raises(RewardError, match=says):
        make_trainer(8, reward_funcs=function, max_steps=1).train()


def test_a_reward_function_that_empties_its_list_has_given_its_rewards(make_trainer):
    trainer = make_trainer(8, reward_funcs=empties_and_returns, max_steps=1)
    trainer.train()
    assert logged(trainer)[0]["reward"] > 0
    assert (table_of(trainer)["completion"].str.len() > 0).all()


def test_a_reward_function_that_changes_its_completions_changes_no_log(make_trainer):
    def shouts(completions: list[Any], **columns: Any) -> list[float]:
        rewards = digits(completions)
        for completion in completions:
            completion[0]["content"] = "changed"
        return rewards

    trainer = make_trainer(8, reward_funcs=shouts, log_completions=True, max_steps=1)
    trainer.train()
    assert "changed" not in set(table_of(trainer)["completion"])
    assert "changed" not in str(trainer._logs["completion"])


# ---- what a run says and keeps -------------------------------------------------------------------


def test_after_some_steps_one_line_tells_what_more_rollouts_cost(make_trainer, caplog):
    caplog.set_level(logging.INFO, "podsrl")
    make_trainer(16, max_steps=STEPS_OF_COST + 2).train()
    (said,) = [r.message for r in caplog.records if "generating and scoring took" in r.message]
    assert said.startswith(f"step {STEPS_OF_COST}: ")
    assert "With 16 rollouts for 4 rows a step takes at most " in said

    caplog.clear()
    make_trainer(4, "as TRL", max_steps=STEPS_OF_COST).train()
    assert not [r for r in caplog.records if "generating and scoring took" in r.message]


@pytest.mark.parametrize("what", ["rollouts", "metrics"])
def test_a_full_disk_ends_no_run_and_is_told_once(make_trainer, monkeypatch, caplog, what):
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "out/of/space")

    name = {"rollouts": "write_rollouts", "metrics": "append_metrics"}[what]
    monkeypatch.setattr(RunFolder, name, full)
    trainer = make_trainer(8, max_steps=4, save_strategy="steps", save_steps=2)
    trainer.train()
    assert trainer.state.global_step == 4
    (said,) = [r.message for r in caplog.records if "training goes on" in r.message]
    assert said.startswith(f"{what} ")
    assert "out/of/space" in said


def test_checkpoints_that_are_passed_over_are_named(make_trainer, caplog):
    fields = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1}
    first = make_trainer(8, **fields)
    first.train()
    folder = Path(first.args.output_dir)
    (folder / "checkpoint-3" / "pods_state_0.pt").unlink()
    (folder / "checkpoint-2" / "trainer_state.json").unlink()
    assert last_complete(folder) == folder / "checkpoint-1"
    make_trainer(8, **fields).train(resume_from_checkpoint=True)
    said = [r.message for r in caplog.records if "is passed over" in r.message]
    assert "checkpoint-2 was not written to its end, and" in said[0]
    assert "checkpoint-3 has no state of podsrl's, and" in said[1]


@pytest.mark.parametrize("left", ["", '{"started": "20', "[]"])
def test_a_run_goes_on_where_a_full_disk_emptied_its_environment(make_trainer, left):
    fields = {"save_strategy": "steps", "save_steps": 1}
    folder = Path(make_trainer(8, max_steps=2, **fields).args.output_dir)
    make_trainer(8, max_steps=2, **fields).train()
    (folder / "environment.json").write_text(left)
    again = make_trainer(8, max_steps=3, **fields)
    with pytest.warns(DamagedFileWarning, match="environment.json is damaged.*taken for unknown"):
        again.train(resume_from_checkpoint=True)
    assert [row["step"] for row in RunFolder(folder).metrics()] == [1, 2, 3]
    assert RunFolder(folder).environment()["versions"]  # it is written anew


@pytest.mark.parametrize(("n", "is_told"), [(100_000, True), (256, True), (64, False)])
def test_a_hundred_thousand_rollouts_are_told_before_the_first_step(
    make_trainer, caplog, n, is_told
):
    make_trainer(n)
    said = [r.message for r in caplog.records if r.message.startswith("num_rollouts=")]
    assert len(said) == is_told
    if n == 100_000:
        assert "is 25000 times num_generations=4: 2 prompts have 200000 rollouts" in said[0]


@pytest.mark.parametrize("installed", ["1.8.0", "0.23.1"])
def test_a_trl_that_is_too_old_is_told_at_import(installed):
    with pytest.raises(UnsupportedError, match=f"needs TRL 1.9 to 1.16, and {installed} is"):
        check_version(installed)


def test_a_newer_trl_is_told_and_tried(caplog):
    for installed in ("1.9.0", "1.16.3"):
        check_version(installed)
    assert not caplog.records
    check_version("1.17.0")
    assert "TRL 1.17.0 is newer than 1.16" in caplog.text


@pytest.mark.parametrize("extra", ["trl", "inspect", "rollouts", "verl"])
def test_a_hint_names_packages_that_are_on_an_index(extra):
    hint = how_to_install(extra)
    assert hint.startswith("pip install '")
    assert "podsrl" not in hint
    with (
        pytest.raises(MissingDependencyError, match="which is not installed: pip install '"),
        needed(extra),
    ):
        import nothing_of_that_name  # noqa: F401


def test_a_plain_trainer_still_takes_none_of_this(tiny_model, dataset):
    """What is refused here is refused by podsrl's trainer alone."""
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    options = {**COMMON, "output_dir": "unused"}
    trainer = GRPOTrainer(
        model,
        partial(digits),
        GRPOConfig(**options),
        dataset,
        processing_class=AutoTokenizer.from_pretrained(tiny_model, padding_side="left"),
    )
    assert not logged(trainer)
