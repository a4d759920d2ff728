"""Measuring a model, as `pods compare` does: it leaves nothing behind, and its passes are small."""

from pathlib import Path

import pytest

pytest.importorskip("trl")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from podslab.own_script.compared_trainer import ComparedTrainer
from podslab.own_script.job import REPORTED, ScriptJob
from podslab.own_script.settings import RememberingGRPOConfig
from podslab.tasks import get_task
from podslab.training.run import build_trainer, load_data, with_prompts
from podslab.training.spec import parse
from support.growth import grown, of_trainer
from support.tiny_run import TINY_RUN
from support.trl_runs import COMMON, digits


@pytest.fixture
def make_compared(tiny_model, tmp_path, monkeypatch):
    """make_compared(field=value, ...): the trainer of one arm, not trained."""

    def make(**fields):
        return _compared(tiny_model, tmp_path, monkeypatch, fields)

    return make


def _compared(tiny_model, tmp_path, monkeypatch, fields):
    from datasets import Dataset

    task = get_task("arithmetic", min_columns=2, max_columns=2, train_size=64, test_size=16)
    job = ScriptJob(
        script="train.py",
        arguments=[],
        folder=str(tmp_path / "run"),
        method="pods",
        seed=3,
        questions=REPORTED,
        most_questions=4,
        answers=2,
        seconds=1.0,
        learning_rate=1e-7,
    )
    monkeypatch.setattr(ComparedTrainer, "job", job, raising=False)
    monkeypatch.setattr(ComparedTrainer, "began", 0.0, raising=False)
    config = RememberingGRPOConfig(
        **{**COMMON, "max_completion_length": 6, "gradient_checkpointing": True, **fields},
        output_dir=str(tmp_path / "the-script's"),
    )
    trainer = ComparedTrainer(
        AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32),
        digits,
        config,
        Dataset.from_list(with_prompts(task, task.load("train"))),
        Dataset.from_list(with_prompts(task, task.load("test"))),
        processing_class=AutoTokenizer.from_pretrained(tiny_model, padding_side="left"),
    )
    trainer.model.gradient_checkpointing_enable()  # as train() does
    return trainer


def test_a_model_that_was_measured_often_is_as_it_was_after_the_first_time(make_compared):
    compared = make_compared()
    questions = compared.questions.of_job(compared.job)
    counts = []
    for measurements in (2, 6):
        for _ in range(measurements):
            compared.measure(questions, 2, greedy=False)
            compared.measure(questions, 1, greedy=True)
        counts.append(of_trainer(compared))
    assert grown(*counts) == {}


def test_log_probs_of_a_measurement_have_passes_as_large_as_those_of_training(make_compared):
    """TRL reads per_device_eval_batch_size when it makes its passes, and not before."""
    compared = make_compared(
        per_device_train_batch_size=2, gradient_accumulation_steps=4, num_generations=4, beta=0.04
    )
    rows = []

    def count_rows(module, args, kwargs):
        rows.append(len(args[0] if args else kwargs["input_ids"]))

    compared.ref_model.register_forward_pre_hook(count_rows, with_kwargs=True)
    batch = compared.args.per_device_eval_batch_size
    compared.measure(compared.questions.of_job(compared.job), 2, greedy=False)

    assert batch > 2
    assert rows == [2, 2, 2, 2]  # of four questions with two answers
    assert compared.args.per_device_eval_batch_size == batch


def test_evaluations_of_the_laboratory_add_no_hook(tiny_model, tmp_path):
    settings = {
        **TINY_RUN,
        "model_name_or_path": str(tiny_model),
        "output_dir": str(tmp_path / "run"),
        "gradient_checkpointing": True,
    }
    spec = parse(settings)
    trainer = build_trainer(spec, load_data(spec), lambda name: lambda *seen: None)
    trainer.model.gradient_checkpointing_enable()
    counts = []
    for times in (2, 6):
        for _ in range(times):
            with trainer.model_for_generation():
                pass
        counts.append(of_trainer(trainer))
    assert grown(*counts) == {}
    assert Path(tmp_path).is_dir()
