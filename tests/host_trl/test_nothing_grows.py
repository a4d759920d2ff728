"""The work of a step, and what a trainer holds, is the same after many steps as after a few."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
from transformers import AutoModelForCausalLM

from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl.checkpoint import state_file
from podsrl.trl.steady import checkpointing_paused, input_hooks_replaced, loaders_forgotten
from support.growth import CountAt, grown, hooks, objects, of_trainer
from support.trl_runs import equal, weights

#: So slow that rewards stay as they are: what is told once must not be told in between.
SHORT: dict[str, Any] = {"max_completion_length": 6, "logging_steps": 5, "learning_rate": 1e-7}
LOGGED_STEPS = 5
#: Python keeps the last 128 addresses that it took apart, such as those of files.
CACHED = "urllib.parse.SplitResult"
#: All but the first are of a few steps, since what one of them adds is counted as well after those.
VARIANTS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "the defaults": ((20, 40, 60), {}),
    "without checkpointing": ((4, 8, 12), {"gradient_checkpointing": False}),
    "n = m": ((4, 8, 12), {"num_rollouts": 4}),
    "a reference model": ((4, 8, 12), {"beta": 0.1}),
    "several passes": (
        (4, 8, 12),
        {"num_iterations": 2, "gradient_accumulation_steps": 2, "steps_per_generation": 4},
    ),
    "evaluations": ((4, 8, 12), {"eval_strategy": "steps", "eval_steps": 2}),
    "a table of completions": ((4, 8, 12), {"log_completions": True, "logging_steps": 1}),
}


def lora() -> Any:
    peft = pytest.importorskip("peft")
    return peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")


def train_and_count(make_trainer: Any, steps: tuple[int, ...], fields: dict[str, Any]) -> Any:
    """A trainer, what it and its process hold after each of these steps, and objects by type."""
    n = fields.pop("num_rollouts", 8)
    rows = 2 * n * LOGGED_STEPS
    options = {**SHORT, "max_steps": steps[-1], "rollout_log_max_rows": rows, **fields}
    trainer = make_trainer(n, **options)

    def count() -> Any:
        trainer.pods.recorder.flush()  # its thread has a file open while it writes a step
        return of_trainer(trainer), objects()

    counted = CountAt(count, steps)
    trainer.add_callback(counted)
    trainer.train()
    return trainer, *zip(*(counted.counts[step] for step in steps), strict=True)


@pytest.mark.parametrize("adapters", [False, True], ids=["all weights", "adapters"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_later_step_finds_no_more_than_an_earlier_one(
    variant, adapters, make_trainer, dataset, capsys
):
    steps, fields = VARIANTS[variant]
    fields = dict(fields)
    if adapters:
        steps = (4, 8, 12)
        fields["peft_config"] = lora()
    if variant == "evaluations":
        fields["eval_dataset"] = dataset.select(range(2))

    trainer, counts, types = train_and_count(make_trainer, steps, fields)
    logged = "_rollouts.logged.rollouts"  # as many steps as the log may hold
    more = grown(counts[0], counts[-1])
    assert {name: more[name] for name in more if logged not in name} == {}

    # Of no type are there as many new objects as steps, and again as many.
    apart = steps[1] - steps[0]
    every_step = [
        name
        for name, count in types[2].items()
        if count >= types[1][name] + apart >= types[0][name] + 2 * apart and name != CACHED
    ]
    assert every_step == []
    assert len(RunFolder(Path(trainer.args.output_dir)).rollout_steps()) <= LOGGED_STEPS


def test_the_state_in_a_checkpoint_does_not_grow(make_trainer):
    trainer = make_trainer(8, **SHORT, max_steps=60, save_strategy="steps", save_steps=20)
    trainer.train()
    folder = Path(trainer.args.output_dir)
    early, late = (state_file(folder / f"checkpoint-{step}", 0).stat().st_size for step in (20, 60))
    assert late <= early + 64  # numbers of more digits


def test_training_again_in_the_same_trainer_adds_no_work_to_a_step(make_trainer):
    trainer = make_trainer(8, **SHORT, max_steps=2)
    counts = []
    for _ in range(4):
        trainer.train()
        counts.append(of_trainer(trainer))
    assert grown(counts[1], counts[3]) == {}


# ---- checkpointing_paused ------------------------------------------------------------------------


@pytest.fixture
def model(tiny_model):
    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)


def layers(model: Any) -> list[bool]:
    return [
        m.gradient_checkpointing for m in model.modules() if hasattr(m, "gradient_checkpointing")
    ]


def test_inside_no_layer_checkpoints_and_afterwards_the_same_ones_do(model):
    model.gradient_checkpointing_enable()
    before = layers(model)
    assert any(before)
    for module in model.modules():
        if hasattr(module, "gradient_checkpointing"):
            module.gradient_checkpointing = False  # as every_n_layers leaves some out
            break
    some = layers(model)
    count = hooks(model)
    with checkpointing_paused(model):
        assert not any(layers(model))
        assert not model.is_gradient_checkpointing
    assert layers(model) == some != before
    assert hooks(model) == count

    def fail():
        with checkpointing_paused(model):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert layers(model) == some


def test_layers_that_a_user_leaves_out_of_checkpointing_stay_left_out(make_trainer, model):
    if not hasattr(model, "activation_checkpointing_enable"):
        pytest.skip("every_n_layers came with a later transformers")
    kwargs = {"every_n_layers": 2}
    trainer = make_trainer(8, **SHORT, max_steps=2, gradient_checkpointing_kwargs=kwargs)
    trainer.train()
    model.activation_checkpointing_enable(every_n_layers=2)
    assert layers(trainer.model) == layers(model)
    assert len(set(layers(model))) == 2


def test_a_model_that_does_not_checkpoint_is_left_alone(model):
    before = [dict(vars(module)) for module in model.modules()]
    with checkpointing_paused(model):
        assert [dict(vars(module)) for module in model.modules()] == before
    assert [dict(vars(module)) for module in model.modules()] == before


@pytest.mark.parametrize("adapters", [False, True], ids=["all weights", "adapters"])
def test_training_gives_the_same_weights_as_trls_own_switching(adapters, make_trainer):
    """n = m is TRL bit for bit, with checkpointing, too."""
    fields = {**SHORT, "max_steps": 3, "gradient_checkpointing": True}
    if adapters:
        fields["peft_config"] = lora()
    theirs = make_trainer(None, "theirs", **fields)
    theirs.train()
    ours = make_trainer(4, "ours", **fields)
    ours.train()
    assert equal(weights(theirs), weights(ours))
    assert layers(ours.model) == layers(theirs.model)
    assert any(layers(ours.model))


# ---- what podsrl.trl.steady relies on in the hosts -----------------------------------------------


def test_trl_switches_checkpointing_only_where_it_finds_it_on(make_trainer, monkeypatch):
    trainer = make_trainer(None, **SHORT, max_steps=1)
    model = trainer.model
    switched = []
    switch_on = model.gradient_checkpointing_enable

    def note(*args, **kwargs):
        switched.append(args)
        return switch_on(*args, **kwargs)

    monkeypatch.setattr(model, "gradient_checkpointing_enable", note)
    switch_on()
    model.train()
    inputs = [trainer.train_dataset[0]] * 4
    with checkpointing_paused(model):
        trainer._generate_and_score_completions(inputs)
    assert switched == []

    trainer._generate_and_score_completions(inputs)
    assert switched, "TRL no longer switches checkpointing: checkpointing_paused can go"


def test_transformers_adds_a_hook_whenever_checkpointing_is_switched_on(model):
    model.gradient_checkpointing_enable()
    first = model._require_grads_hooks
    once = hooks(model)
    with input_hooks_replaced(model):
        model.gradient_checkpointing_disable()
        model.gradient_checkpointing_enable()
        assert hooks(model) == once + 1, (
            "transformers no longer does: what podsrl.trl.steady has of hooks can go"
        )
    assert hooks(model) == once
    assert model._require_grads_hooks is not first

    with input_hooks_replaced(model):
        pass
    assert hooks(model) == once  # those that are in use stay


def test_hooks_on_the_model_below_adapters_are_found_through_them(model):
    from peft import get_peft_model

    model = get_peft_model(model, lora())
    model.enable_input_require_grads()
    with input_hooks_replaced(model):
        model.enable_input_require_grads()
        assert hooks(model) == 2
    assert hooks(model) == 1


def test_accelerate_keeps_the_loader_of_each_evaluation(make_trainer, dataset):
    trainer = make_trainer(None, **SHORT, max_steps=1, eval_dataset=dataset.select(range(2)))
    before = len(trainer.accelerator._dataloaders)
    trainer.get_eval_dataloader()
    assert len(trainer.accelerator._dataloaders) == before + 1, (
        "transformers or accelerate no longer does: loaders_forgotten can go"
    )
    with loaders_forgotten(trainer.accelerator):
        assert len(trainer.get_eval_dataloader()) > 0
    assert len(trainer.accelerator._dataloaders) == before + 1
