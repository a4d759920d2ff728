"""What a run shows to others: the model's card, and curves in trackio and wandb."""

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from podsrl.rollout_log.run_folder import RunFolder


def test_the_models_card_names_pods_and_no_folder(make_trainer):
    trainer = make_trainer(8, save_strategy="steps", save_steps=2)
    trainer.train()
    card = (Path(trainer.args.output_dir) / "README.md").read_text(encoding="utf-8")
    said = " ".join(card.split())
    assert "This model was trained with PODS, a method introduced in [Not All Rollouts" in said
    assert str(trainer.args.output_dir) not in card  # nor any other folder of this machine


@pytest.mark.parametrize("name", ["wandb", "trackio"])
@pytest.mark.skipif("TRACKIO_DIR" not in os.environ, reason="nox -s tracking runs it")
def test_curves_of_all_and_of_the_kept_go_where_trl_was_asked_to_log(
    make_trainer, monkeypatch, name
):
    """The real packages, which write to folders of this machine that `nox -s tracking` names."""
    tracker = importlib.import_module(name)
    logged: list[dict[str, Any]] = []

    class Spy(TrainerCallback):
        def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
            log = tracker.log  # wandb has it since its run began

            def remember(values: dict[str, Any], *args: Any, **kwargs: Any) -> None:
                logged.append(values)
                log(values, *args, **kwargs)

            monkeypatch.setattr(tracker, "log", remember)

    trainer = make_trainer(8, report_to=name, log_completions=True, num_completions_to_print=0)
    trainer.add_callback(Spy())
    trainer.train()
    steps = [values for values in logged if "train/pods/kept_reward" in values]
    assert len(steps) == 2
    metrics = RunFolder(trainer.args.output_dir).metrics()
    for values, row in zip(steps, metrics, strict=True):
        for metric in ("reward", "pods/kept_reward", "pods/rollouts"):
            assert values[f"train/{metric}"] == row[metric]
    assert any("completions" in values for values in logged)  # TRL's table of what it trains on
