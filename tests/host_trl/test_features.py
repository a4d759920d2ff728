"""What comes with GRPOTrainer still works."""

import functools
import inspect
import json
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from podslab.evaluation import sampling as runner
from podslab.training.spec import parse
from podsrl.errors import InvalidInputError, MissingDependencyError
from podsrl.trl import PODSConfig, PODSTrainer
from podsrl.trl.checks import check_arguments
from support.trl_runs import digits, equal, logged, weights


def test_lora_trains_the_adapter_only_with_a_reference_from_the_base_model(make_trainer):
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    trainer = make_trainer(8, peft_config=config, beta=0.05, max_steps=2)
    before = weights(trainer)
    trainer.train()

    after = weights(trainer)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("lora" in name for name in changed)
    assert "kl" in logged(trainer)[0]


# ---- evaluation ----------------------------------------------------------------------------------


class Scored(NamedTuple):
    """A call of `_calculate_rewards`."""

    training: bool
    completions: int
    rewards: int


def record_scoring(trainer: Any) -> list[Scored]:
    """What the trainer scores from now on, and how many rewards it gets."""
    calls: list[Scored] = []
    calculate = trainer._calculate_rewards

    def recorded(inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        rewards = calculate(inputs, prompts, completions, ids)
        calls.append(Scored(trainer.model.training, len(completions), len(rewards)))
        return rewards

    trainer._calculate_rewards = recorded
    return calls


def test_evaluation_is_trls_own_and_leaves_training_alone(make_trainer, dataset):
    trainer = make_trainer(
        8,
        max_steps=2,
        eval_dataset=dataset.select(range(4)),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
        num_generations_eval=2,
    )
    calls = record_scoring(trainer)
    trainer.train()

    # 4 prompts x num_generations_eval, at each of 2 steps
    assert [call.completions for call in calls if not call.training] == [8, 8]
    evaluations = [entry for entry in trainer.state.log_history if "eval_reward" in entry]
    assert len(evaluations) == 2
    for evaluation in evaluations:
        assert not any(name.startswith("eval_pods/") for name in evaluation)


@pytest.mark.slow
def test_an_evaluation_with_continuous_batching_has_its_own_rewards(make_trainer, dataset):
    trainer = make_trainer(
        8,
        max_steps=1,
        use_transformers_continuous_batching=True,
        transformers_continuous_batching_config={"num_blocks": 64, "max_batch_tokens": 256},
        eval_dataset=dataset.select(range(16)),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=32,
        num_generations_eval=4,
    )
    calls = record_scoring(trainer)
    trainer.train()

    # all n, and two evaluation batches
    assert [call.completions for call in calls] == [16, 32, 32]
    assert [call.rewards for call in calls] == [16, 32, 32]
    assert trainer.pods.state.rollouts_generated == 16


@pytest.mark.slow
def test_in_an_evaluation_with_continuous_batching_a_group_is_as_wide_as_it_is(
    make_trainer, dataset
):
    widths: list[tuple[int, int]] = []

    def rank(completions: list[Any], num_rollouts: int, **kwargs: Any) -> list[float]:
        widths.append((len(completions), num_rollouts))
        return digits(completions)

    make_trainer(
        8,
        reward_funcs=rank,
        max_steps=1,
        use_transformers_continuous_batching=True,
        transformers_continuous_batching_config={"num_blocks": 64, "max_batch_tokens": 256},
        eval_dataset=dataset.select(range(4)),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
        num_generations_eval=2,
    ).train()
    assert widths == [(16, 8), (8, 2)]


def record_templates(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """With which options the tokenizer's chat template is applied from now on."""
    options: list[dict[str, Any]] = []
    apply = tokenizer.apply_chat_template

    def recorded(*args: Any, **kwargs: Any) -> Any:
        options.append(kwargs)
        return apply(*args, **kwargs)

    monkeypatch.setattr(tokenizer, "apply_chat_template", recorded)
    return options


def test_the_runs_evaluations_sample_and_prompt_as_its_training_does(
    tiny_model, arithmetic, monkeypatch
):
    like_training: dict[str, Any] = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2}
    spec = parse(
        {
            "task": "arithmetic",
            "model_name_or_path": str(tiny_model),
            "output_dir": "unused",
            "use_cpu": True,
            "bf16": False,
            "chat_template_kwargs": {"enable_thinking": False},
            **like_training,
        }
    )
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    model.generation_config.repetition_penalty = 1.05  # as some models on the hub have
    template_options = record_templates(tokenizer, monkeypatch)
    generation_configs: list[Any] = []

    def generate(model: Any, ids: Any, mask: Any, config: Any) -> Any:
        generation_configs.append(config)
        return ids

    monkeypatch.setattr(runner.generation, "generate", generate)
    rows = arithmetic.load("test")[:2]
    of_the_run = spec.evaluation_sampling
    plain = runner.Sampling()
    for sampling in (of_the_run, plain):
        runner.sample_and_grade(model, tokenizer, arithmetic, rows, 1, sampling)

    in_the_run, alone = generation_configs
    assert {name: getattr(in_the_run, name) for name in like_training} == like_training
    assert alone.repetition_penalty == 1.0
    assert template_options[0]["enable_thinking"] is False


# ---- losses, passes and data ---------------------------------------------------------------------


def test_two_reward_functions_of_one_name_are_told_apart(make_trainer):
    def contains(completions, what, **kwargs):
        return [float(what in completion[-1]["content"]) for completion in completions]

    both = [functools.partial(contains, what=digit) for digit in "89"]
    trainer = make_trainer(8, reward_funcs=both)
    trainer.train()
    assert trainer.reward_func_names == ["contains", "contains_2"]
    last = [row for row in trainer.state.log_history if "rewards/contains/mean" in row][-1]
    assert "rewards/contains_2/mean" in last


@pytest.mark.parametrize("loss_type", ["dapo", "dr_grpo", "bnpo", "cispo"])
def test_other_losses_of_trl_take_the_kept_rows(make_trainer, loss_type):
    trainer = make_trainer(8, loss_type=loss_type, scale_rewards="batch", max_steps=1)
    before = weights(trainer)
    trainer.train()
    assert not equal(before, weights(trainer))


def test_several_optimiser_steps_per_generation_generate_once(make_trainer):
    trainer = make_trainer(8, steps_per_generation=2, num_iterations=2, max_steps=4)
    trainer.train()
    generated = [entry["pods/rollouts_generated"] for entry in logged(trainer)]
    # 4 groups of 8, drawn once, then used for 2 slices x 2 passes (metrics carry over)
    assert generated == [32.0] * len(generated)
    assert trainer.pods.state.rollouts_trained == 16


def test_fewer_prompts_than_a_generation_takes_are_refused(make_trainer, dataset):
    across = {"num_generations": 1, "downsampling_rule": "max_contrast"}
    with pytest.raises(InvalidInputError, match="has 7 prompts, and one generation takes 8"):
        make_trainer(3, data=dataset.select(range(7)), **across)
    make_trainer(3, data=dataset.select(range(8)), **across)


# ---- settings ------------------------------------------------------------------------------------

BASE: dict[str, Any] = {"use_cpu": True, "bf16": False, "report_to": "none"}


def test_every_default_is_trls(tmp_path):
    trls = GRPOConfig(str(tmp_path), **BASE).to_dict()
    ours = PODSConfig(str(tmp_path), **BASE).to_dict()
    trls_fields = {field.name for field in fields(GRPOConfig)}
    own_fields = {field.name for field in fields(PODSConfig)} - trls_fields
    assert {name: value for name, value in ours.items() if name not in own_fields} == trls


def test_n_is_by_default_four_times_m(tmp_path):
    config = PODSConfig(str(tmp_path), **BASE)
    assert config.num_generations == 8
    assert config.num_rollouts == 32
    assert config.downsampling_rule == "max_variance"
    assert config.advantage_baseline == "kept"
    assert config.rollout_log

    assert PODSConfig(str(tmp_path), num_generations=4, **BASE).num_rollouts == 16


def test_sizes_that_numpy_made_drop_rollouts_and_are_saved_as_any_other(tmp_path):
    config = PODSConfig(str(tmp_path), num_generations=np.int64(4), **BASE)
    assert (config.num_rollouts, config.num_generations) == (16, 4)
    assert json.loads(config.to_json_string())["num_rollouts"] == 16


def test_a_config_with_a_mean_of_one_row_is_made_again_of_its_own_values(tmp_path):
    config = PODSConfig(
        str(tmp_path),
        num_generations=1,
        downsampling_rule="max_contrast",
        steps_per_generation=2,
        **BASE,
    )
    assert config.num_rollouts == 4
    assert config.num_generations == 1
    assert config.num_generations_eval is None

    again = PODSConfig(**{**config.to_dict(), "generation_batch_size": None})
    assert again.to_dict() == config.to_dict()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"num_rollouts": 4},
            "num_generations=8 rollouts can't be kept of num_rollouts=4; allowed: 2 <= m <= 4",
        ),
        (
            {"num_generations": 1},
            "num_generations=1; allowed: 2 <= m .* downsampling_rule=max_contrast",
        ),
        ({"num_rollouts": 64.5}, "num_rollouts"),
        ({"downsampling_rule": "best"}, "unknown rule 'best'; the rules are max_variance"),
        ({"advantage_baseline": "mean"}, "advantage_baseline='mean'; allowed: kept, group"),
        ({"advantage_baseline": "group", "scale_rewards": "batch"}, "advantage_baseline='group'"),
        ({"rollout_log_max_rows": 0}, "rollout_log_max_rows"),
        ({"rollout_log_max_rows": True}, "rollout_log_max_rows must be an integer"),
        ({"rollout_log": "no"}, "rollout_log must be True or False; got .no."),
        ({"skip_zero_advantage": "yes"}, "skip_zero_advantage must be True or False; got .yes."),
    ],
)
def test_a_wrong_config_says_what_was_given_and_what_is_allowed(tmp_path, fields, says):
    with pytest.raises((InvalidInputError, KeyError), match=says):
        PODSConfig(str(tmp_path), **BASE, **fields)


def test_the_signature_is_that_of_grpo_trainer():
    signature = inspect.signature(PODSTrainer)
    assert signature == inspect.signature(GRPOTrainer)
    assert "peft_config" in signature.parameters


@pytest.mark.parametrize(
    ("n", "fields", "says", "cites"),
    [
        (8, {}, "with PODS, a method introduced in", "2504.13818"),
        (4, {}, "with GRPO, a method introduced in", "2402.03300"),
        (8, {"downsampling_rule": "max_reward"}, "with GRPO on rows chosen by max_reward", None),
    ],
)
def test_the_card_says_what_the_model_was_trained_with(make_trainer, n, fields, says, cites):
    trainer = make_trainer(n, **fields)
    trainer.create_model_card()

    card = (Path(trainer.args.output_dir) / "README.md").read_text()
    assert says in card
    assert ("2504.13818" in card) == (cites == "2504.13818")
    assert cites is None or cites in card


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_vllm_that_is_not_there_is_one_line(make_trainer):
    with pytest.raises(MissingDependencyError, match="vLLM is not available"):
        make_trainer(8, use_vllm=True)


def streamed(parts: int) -> Any:
    rows = [{"prompt": f"{i} + 1 =", "answer": "1"} for i in range(64)]
    return Dataset.from_list(rows).to_iterable_dataset(num_shards=parts)


@pytest.fixture
def stream_args(tmp_path: Path) -> PODSConfig:
    return PODSConfig(
        str(tmp_path),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        use_cpu=True,
        num_generations=4,
        bf16=False,
    )


def test_a_stream_whose_prompts_trl_would_repeat_is_refused(stream_args, monkeypatch):
    check_arguments(stream_args, len, None, streamed(parts=4))  # one process reads all parts

    monkeypatch.setattr(PODSConfig, "world_size", 2)
    with pytest.raises(InvalidInputError, match="streamed in 4 parts to 2 processes"):
        check_arguments(stream_args, len, None, streamed(parts=4))
    check_arguments(stream_args, len, None, streamed(parts=1))


def test_a_stream_is_allowed_where_each_process_sees_each_prompt_once(stream_args, monkeypatch):
    """With an odd number of steps, unless a group is cut in two."""
    monkeypatch.setattr(PODSConfig, "world_size", 2)
    for steps in (1, 3):
        stream_args.steps_per_generation = steps
        check_arguments(stream_args, len, None, streamed(parts=4))

    stream_args.num_generations = 8
    with pytest.raises(InvalidInputError, match="never see others"):
        check_arguments(stream_args, len, None, streamed(parts=4))
