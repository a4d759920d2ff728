"""contrib/slime-uneven-groups: the method that the patch adds, taken out of it."""

from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

PATCH = Path(__file__).parents[2] / "contrib" / "slime-uneven-groups" / "uneven-groups.patch"


def normalized(groups: list[tuple[int, list[float]]], *, std: bool = True) -> list[float]:
    added = [line[1:] for line in PATCH.read_text().splitlines() if line.startswith("+")]
    start = next(i for i, line in enumerate(added) if "def _normalize_by_group" in line)
    made: dict[str, Any] = {"torch": torch, "Sample": object}
    exec(dedent("\n".join(added[start:])), made)

    samples = [SimpleNamespace(group_index=g) for g, rewards in groups for _ in rewards]
    rewards = torch.tensor([reward for _, of_group in groups for reward in of_group])
    args = SimpleNamespace(advantage_estimator="grpo", grpo_std_normalization=std)
    return made["_normalize_by_group"](SimpleNamespace(args=args), rewards, samples)


def test_each_group_has_its_own_mean():
    got = normalized([(7, [1.0, 0.0, 0.0]), (9, [11.0, 10.0])], std=False)
    assert got == pytest.approx([2 / 3, -1 / 3, -1 / 3, 0.5, -0.5])


def test_the_deviation_is_that_of_the_group():
    for group in ([1.0, 0.0, 0.0], [5.0, 3.0], [0.25, 0.5, 4.0, 0.0]):
        got = normalized([(3, [8.0, 9.0]), (1, group)])[2:]
        of_group = torch.tensor(group)
        known = (of_group - of_group.mean()) / (of_group.std() + 1e-6)
        assert got == pytest.approx(known.tolist(), rel=1e-4)


def test_one_sample_alone_teaches_nothing():
    assert normalized([(0, [3.0]), (1, [1.0, 0.0])])[0] == 0.0


def test_groups_may_be_mixed():
    got = normalized([(0, [1.0]), (1, [4.0]), (0, [0.0]), (1, [2.0]), (1, [0.0])], std=False)
    assert got == pytest.approx([0.5, 2.0, -0.5, 0.0, -2.0])
