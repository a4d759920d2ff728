"""A run of TRL's own trainer, without podsrl, opened while it trains and afterwards."""

import pytest
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from podsrl.inspector.answers import group_of, state_of
from support.inspected import age, index_of
from support.trl_runs import COMMON


def right(completions, answer, **columns):
    return [float(a in text_of(c)) for c, a in zip(completions, answer, strict=True)]


def brief(completions, **columns):
    return [1 / (1 + len(text_of(c))) for c in completions]


def text_of(completion):
    return completion if isinstance(completion, str) else completion[-1]["content"]


class OpenedAfterEachStep(TrainerCallback):
    """Opens the folder when a step was logged, as a person does while it trains."""

    def __init__(self, folder):
        self.folder = folder
        self.seen = []

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step:
            age(*(self.folder / "completions").iterdir())
            with index_of(self.folder) as index:
                [run] = state_of(index)["runs"]
                self.seen.append((run["last_step"], run["rollouts"], run["damaged"]))


def test_the_output_dir_of_a_plain_grpo_trainer_is_opened(tmp_path, tiny_model, dataset):
    folder = tmp_path / "out"
    opened = OpenedAfterEachStep(folder)
    trainer = GRPOTrainer(
        str(tiny_model),
        reward_funcs=[right, brief],
        args=GRPOConfig(str(folder), **{**COMMON, "max_steps": 3}, log_completions=True),
        train_dataset=dataset,
        callbacks=[opened],
    )
    trainer.train()
    assert opened.seen == [(1, 8, []), (2, 16, [])]

    age(*(folder / "completions").iterdir())
    with index_of(folder, keep=2) as index:
        [run] = state_of(index)["runs"]
        assert (run["first_step"], run["last_step"], run["rollouts"]) == (1, 3, 24)
        assert run["functions"] == ["brief", "right"]
        assert run["doubts"] == []
        for step in (1, 2, 3):
            group = group_of(index, index.runs[0], step, 0)
            assert len(group["rollouts"]) == 4
            for rollout in group["rollouts"]:
                parts = rollout["rewards"]
                assert rollout["reward"] == pytest.approx(parts["right"] + parts["brief"])
            # What the rule would keep is at both ends of the rewards.
            rewards = [rollout["reward"] for rollout in group["rollouts"]]
            kept = [rollout["reward"] for rollout in group["rollouts"] if rollout["kept"]]
            assert sorted(kept) == [min(rewards), max(rewards)]
