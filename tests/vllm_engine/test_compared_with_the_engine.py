"""`pods compare` of a script that generates with vLLM, colocated. `nox -s vllm` runs it."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "vllm", reason="vLLM is not installed; `nox -s vllm` gets a build for CPUs and runs this"
)
pytest.importorskip("trl")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from podslab.evaluation.records import evaluations
from podslab.own_script.compared_trainer import ComparedTrainer, ScriptEnded
from podslab.own_script.job import REPORTED, ScriptJob
from podslab.own_script.settings import RememberingGRPOConfig
from podslab.training.run import with_prompts
from podsrl.rollout_log.run_folder import RunFolder
from support.trl_runs import COMMON, arithmetic, dataset, digits

__all__ = ["arithmetic", "dataset"]

QUESTIONS = 8


@pytest.mark.slow
@pytest.mark.usefixtures("on_cpu")
def test_an_arm_is_trained_and_measured_through_the_engine(
    tiny_model: Path,
    arithmetic: Any,
    dataset: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    job = ScriptJob(
        script="train.py",
        arguments=[],
        folder=str(tmp_path / "run"),
        method="pods",
        learning_rate=1e-3,
        seed=3,
        questions=REPORTED,
        most_questions=QUESTIONS,
        answers=2,
        seconds=0.5,
        evaluations=1,
        from_start=True,
    )
    monkeypatch.setattr(ComparedTrainer, "job", job, raising=False)
    monkeypatch.setattr(ComparedTrainer, "began", 0.0, raising=False)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model, padding_side="left")
    config = RememberingGRPOConfig(
        **{**COMMON, "use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 128},
        output_dir=str(tmp_path / "the-script's"),
    )
    trainer = ComparedTrainer(
        AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32),
        digits,
        config,
        dataset,
        Dataset.from_list(with_prompts(arithmetic, arithmetic.load("test"))),
        processing_class=tokenizer,
    )
    with pytest.raises(ScriptEnded):
        trainer.train()

    before, after = evaluations(RunFolder(tmp_path / "run"))
    for point in (before, after):
        assert (len(point.rewards), len(point.rewards[0])) == (QUESTIONS, 2)
    # Samples differ where greedy answers, which the trained weights decide, would not.
    assert any(first != second for first, second in after.rewards)
    assert after.greedy_rewards != before.greedy_rewards
    assert after.greedy_rewards == pytest.approx(greedy_rewards(trainer, tokenizer))


def greedy_rewards(trainer: ComparedTrainer, tokenizer: Any) -> list[float]:
    """The rewards of the likeliest answers, by transformers and the weights as they are now."""
    model = trainer.accelerator.unwrap_model(trainer.model).eval()
    completions = []
    for row in trainer.questions.of_job(trainer.job):
        prompt = tokenizer.apply_chat_template(
            row["prompt"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        ids = model.generate(**prompt, do_sample=False, max_new_tokens=32)
        new_ids = ids[0, prompt["input_ids"].shape[1] :]
        text = tokenizer.decode(new_ids, skip_special_tokens=True)
        completions.append([{"role": "assistant", "content": text}])
    return digits(completions)
