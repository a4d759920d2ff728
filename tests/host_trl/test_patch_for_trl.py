"""contrib/trl-hook: the patch applies to the installed TRL, and does what its text says."""

import ast
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("trl")

import trl
from trl import GRPOTrainer
from trl.trainer import grpo_trainer

from support.trl_runs import COMMON, count_passed_rows, equal, weights

PATCH = Path(__file__).parents[2] / "contrib" / "trl-hook" / "select-completions.patch"

pytestmark = [
    pytest.mark.skipif(trl.__version__ != "1.16.0", reason="the patch is against TRL 1.16.0"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git applies the patch"),
]


@pytest.fixture
def patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed TRL with the patched methods."""
    source = Path(str(grpo_trainer.__file__))
    copy = tmp_path / "patched" / "trl" / "trainer" / source.name
    copy.parent.mkdir(parents=True)
    shutil.copy(source, copy)
    subprocess.run(["git", "apply", str(PATCH)], cwd=tmp_path / "patched", check=True)
    for name in ("_select_completions", "_generate_and_score_completions"):
        method = _method(copy.read_text("utf-8"), name)
        monkeypatch.setattr(GRPOTrainer, name, method, raising=False)


def _method(source: str, name: str) -> Any:
    """A method of TRL's trainer, with its module's names; `super()` in it is the trainer's."""
    [trainer] = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and node.name == "GRPOTrainer"
    ]
    [found] = [node for node in trainer.body if getattr(node, "name", "") == name]
    made: dict[str, Any] = {}
    exec(compile(ast.Module([found], []), name, "exec"), vars(grpo_trainer), made)
    return made[name]


class TheEnds:
    """Selects the lowest and the highest reward of each group."""

    def _select_completions(self, rewards: torch.Tensor) -> torch.Tensor:
        order = rewards.nansum(-1).argsort(dim=1)
        return torch.stack([order[:, 0], order[:, -1]], dim=1)


class All:
    def _select_completions(self, rewards: torch.Tensor) -> torch.Tensor:
        return torch.arange(rewards.size(1)).expand(rewards.size(0), -1)


def test_only_selected_completions_pass_through_the_model(make_trainer, patched, monkeypatch):
    rows = count_passed_rows(monkeypatch)
    trainer = make_trainer(None, mixin=TheEnds, scale_rewards="none")
    trainer.train()
    of_generation = COMMON["per_device_train_batch_size"]
    groups = of_generation // COMMON["num_generations"]
    assert set(rows) == {2 * groups}
    advantages = torch.tensor(list(trainer._logs["advantages"])).view(-1, 2)
    torch.testing.assert_close(advantages.sum(1), torch.zeros(len(advantages)))


def test_without_an_override_or_with_all_a_run_is_as_before(make_trainer, patched):
    trained = []
    for name, mixin in (("plain", None), ("all", All)):
        trainer = make_trainer(None, name, mixin=mixin)
        trainer.train()
        trained.append(weights(trainer))
    assert equal(*trained)
