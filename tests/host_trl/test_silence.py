"""What would cost a day in silence is said in one line."""

from typing import Any

import pytest

from support.trl_runs import digits, logged

COLOCATE = {"use_vllm": True, "vllm_mode": "colocate"}


def said(caplog: Any, part: str) -> list[str]:
    return [record.message for record in caplog.records if part in record.message]


def expects_text(completions: list[Any], **kwargs: Any) -> list[float]:
    """A grader of strings that is given conversations."""
    return [float("7" in completion) for completion in completions]


@pytest.mark.slow
def test_ten_steps_without_contrast_are_told_once_with_the_usual_cause(make_trainer, caplog):
    make_trainer(8, max_steps=12, reward_funcs=expects_text).train()
    (line,) = said(caplog, "nothing was learned")
    assert line.startswith("step 10: for 10 steps the kept rewards of every prompt were equal")
    assert "completion[-1]['content']" in line


def equal_tenths(completions: list[Any], **kwargs: Any) -> list[float]:
    """In float32 the mean of eight of them is not 0.1."""
    return [0.1] * len(completions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "fields"),
    [
        (8, {"num_generations": 8}),  # n = m: the advantages are TRL's
        (8, {"num_generations": 8, "reward_funcs": [expects_text, equal_tenths]}),
        (8, {"reward_funcs": [expects_text, equal_tenths]}),
        (8, {"num_iterations": 2}),
        (8, {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4}),
        # two generations for a step, and a generation for two steps
        (8, {"gradient_accumulation_steps": 2, "steps_per_generation": 1}),
        (8, {"steps_per_generation": 2, "per_device_train_batch_size": 4}),
        (8, {"beta": 0.1}),
        (8, {"scale_rewards": "batch"}),
        (4, {"downsampling_rule": "max_contrast", "num_generations": 1}),
    ],
)
def test_whatever_is_set_ten_steps_without_contrast_are_told(make_trainer, caplog, n, fields):
    make_trainer(n, max_steps=12, **{"reward_funcs": equal_tenths, **fields}).train()
    (line,) = said(caplog, "nothing was learned")
    assert line.startswith("step 10: ")


def test_a_first_step_without_contrast_is_told_at_once(make_trainer, caplog):
    make_trainer(8, max_steps=2, reward_funcs=equal_tenths).train()
    (line,) = said(caplog, "this step teaches nothing")
    assert line.startswith("step 1: all kept rewards of a prompt are equal, for every prompt")
    caplog.clear()
    make_trainer(8, "other", max_steps=2).train()
    assert said(caplog, "this step teaches nothing") == []


def test_a_step_teaches_if_any_of_its_generations_has_contrast(make_trainer, caplog):
    calls = []

    def every_other(completions: list[Any], **kwargs: Any) -> list[float]:
        calls.append(1)
        return [0.0] * len(completions) if len(calls) % 2 else digits(completions)

    fields = {"gradient_accumulation_steps": 2, "steps_per_generation": 1, "max_steps": 2}
    make_trainer(8, reward_funcs=every_other, **fields).train()
    assert len(calls) == 4
    assert said(caplog, "teaches nothing") == []


@pytest.mark.slow
def test_one_step_with_contrast_begins_the_count_anew(make_trainer, caplog):
    def once(completions: list[Any], trainer_state: Any, **kwargs: Any) -> list[float]:
        at = trainer_state.global_step
        return digits(completions) if at == 3 else [0.0] * len(completions)

    trainer = make_trainer(8, max_steps=14, reward_funcs=once, save_strategy="steps", save_steps=5)
    trainer.train()
    (line,) = said(caplog, "nothing was learned")
    assert line.startswith("step 14: ")
    caplog.clear()  # a resumed run counts from where it goes on
    again = make_trainer(8, max_steps=14, reward_funcs=once)
    again.train(resume_from_checkpoint=f"{trainer.args.output_dir}/checkpoint-5")
    assert said(caplog, "nothing was learned") == []


@pytest.mark.parametrize(
    "fields",
    [{}, {"num_iterations": 2}, {"gradient_accumulation_steps": 2, "steps_per_generation": 1}],
)
def test_steps_that_nothing_scored_have_that_one_reason(make_trainer, caplog, fields):
    """A grader that gives equal rewards, is down for longer than ten steps, and comes back."""

    def flaky(completions: list[Any], trainer_state: Any, **kwargs: Any) -> list[float | None]:
        is_down = 2 <= trainer_state.global_step < 14
        return [None if is_down else 0.0] * len(completions)

    make_trainer(8, max_steps=16, reward_funcs=flaky, **fields).train()
    (line,) = said(caplog, "no rollout got a reward")
    assert line.startswith("step 3: ")
    assert said(caplog, "nothing was learned") == []  # two and two steps had equal rewards


@pytest.mark.parametrize("mode", ["sequence_mask", "token_truncate"])
def test_rows_that_the_importance_correction_masked_after_selection_are_counted(
    make_trainer, stand_in, caplog, mode
):
    """The engine's log-probs are made up, so that some rows are beyond TRL's bounds."""
    trainer = make_trainer(8, max_steps=2, vllm_importance_sampling_mode=mode, **COLOCATE)
    ratios = []
    original = trainer._generate_and_score_completions

    def recorded(inputs: Any) -> Any:
        output = original(inputs)
        ratios.append(output["importance_sampling_ratio"])
        return output

    trainer._generate_and_score_completions = recorded
    trainer.train()
    masked = [int((ratio == 0).all(dim=1).sum()) for ratio in ratios]
    assert [entry["pods/masked_rows"] for entry in logged(trainer)] == masked
    lines = said(caplog, "importance correction masked")
    if mode == "token_truncate":
        assert sum(masked) == 0
        assert lines == []
    else:
        assert sum(masked) > 0
        assert len(lines) == 1
        assert "'token_truncate' masks none" in lines[0]
