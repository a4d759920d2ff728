"""What a run shows to others: the model's card, and curves in trackio and wandb."""

import importlib
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from transformers import TrainerCallback

from podsrl.errors import InvalidInputError
from podsrl.inspector.answers import group_of
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl.reporting import as_markdown
from support.inspected import index_of


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

    tables = [values["completions"] for values in logged if "completions" in values]
    assert len(tables) == 3  # TRL logs the last one again, with its totals
    for table in tables:  # TRL's, of kept and dropped rollouts
        rows = pd.DataFrame(table.data) if name == "trackio" else table.get_dataframe()
        assert rows["kept"].tolist() == [True] * 8 + [False] * 8
        assert set(rows["rule"]) == {"max_variance"}


@pytest.mark.skipif("TRACKIO_DIR" not in os.environ, reason="nox -s tracking runs it")
def test_rollouts_are_traces_of_trackio_if_they_are_asked_for(make_trainer):
    """Written by the real package, and opened by the inspector."""
    trainer = make_trainer(8, report_to="trackio", log_traces=True, project="traced")
    trainer.train()

    with index_of(Path(os.environ["TRACKIO_DIR"]) / "traced.db") as index:
        [run] = index.runs
        for step in (1, 2):
            logged = RunFolder(trainer.args.output_dir).rollouts(step).to_pylist()
            for group in (0, 1):
                expected = [row for row in logged if row["group"] == group]
                found = group_of(index, run, step, group)["rollouts"]
                assert sorted(map(_known, found)) == sorted(map(_known, expected))


def _known(rollout: dict[str, Any]) -> tuple[Any, ...]:
    """What a trace and the rollout log both say of a rollout."""
    advantage = rollout["advantage"]
    rounded = None if advantage is None else round(advantage, 4)
    return (-rollout["reward"], rollout["completion"], rollout["kept"], str(rounded))


def test_traces_without_trackio_are_refused(make_trainer):
    with pytest.raises(InvalidInputError, match="needs report_to='trackio'"):
        make_trainer(8, log_traces=True)


def test_trls_table_of_completions_has_the_dropped_rollouts_too(make_trainer):
    """Against the rollout log, which is written on another way."""
    trainer = make_trainer(12, log_completions=True, num_completions_to_print=1)
    trainer.train()
    folder = Path(trainer.args.output_dir)

    for step in (1, 2):
        table = pd.read_parquet(folder / "completions" / f"completions_{step:05d}.parquet")
        logged = RunFolder(folder).rollouts(step).to_pandas()
        assert table["kept"].tolist() == [True] * 8 + [False] * 16
        assert set(table["rule"]) == {"max_variance"}

        for is_kept, of_kind in table.groupby("kept"):
            expected = logged[logged["kept"] == is_kept]
            said = [completion[-1]["content"] for completion in of_kind["completion"]]
            assert said == expected["completion"].tolist()
            assert of_kind["digits"].tolist() == pytest.approx(expected["reward"].tolist())
            advantages = of_kind["advantage"].dropna().tolist()
            assert advantages == pytest.approx(expected["advantage"].dropna().tolist())


def test_the_table_stays_whole_beside_an_evaluation_and_without_dropping(make_trainer, dataset):
    evaluated = {"eval_dataset": dataset.select(range(4)), "eval_strategy": "steps"}
    trainer = make_trainer(
        8, "pods", log_completions=True, eval_steps=1, num_generations_eval=2, **evaluated
    )
    trainer.train()
    same = make_trainer(4, "same", log_completions=True)
    same.train()
    table = pd.read_parquet(Path(same.args.output_dir) / "completions/completions_00002.parquet")
    assert "kept" not in table  # with n = m it is TRL's own


def test_a_table_in_markdown_is_one_line_a_rollout_whatever_it_says():
    hostile = "a | b\n<script>window.ran = 1</script> [x](javascript:1) `"
    logs = {
        "prompt": ["p", [{"role": "user", "content": hostile}]],
        "completion": [hostile, "c"],
        "rewards": {"odd|name": [1.0, None]},
        "advantages": [0.5, None],
        "extra": {"kept": [True, False], "rule": ["max_variance"] * 2},
    }
    header, _, kept, dropped = as_markdown(logs).split("\n")
    assert header.count("|") == kept.count("|") == dropped.count("|") == 7
    assert kept.startswith("| True | max&#95;variance | p | a &#124; b<br>&lt;script&gt;")
    assert "[x]" not in kept
    assert dropped.endswith("| c |  |  |")


@pytest.mark.skipif("TRACKIO_DIR" not in os.environ, reason="nox -s tracking runs it")
def test_tensorboard_has_the_table_as_text(make_trainer, monkeypatch, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "tensorboard"))
    trainer = make_trainer(
        8, report_to="tensorboard", log_completions=True, num_completions_to_print=0
    )
    trainer.train()
    (folder,) = {path.parent for path in tmp_path.rglob("events.out.tfevents.*")}
    events = EventAccumulator(str(folder))
    events.Reload()
    written = events.Tensors("completions/text_summary")
    assert [event.step for event in written] == [1, 2]
    text = written[0].tensor_proto.string_val[0].decode()
    assert text.count("| True |") == text.count("| False |") == 8
