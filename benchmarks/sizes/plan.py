"""What is measured, in which order: the most important first, since time on a GPU is short."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Arm:
    """How a step spends its rollouts.

    Args:
        name: Its name in tables.
        prompts: The prompts of a step.
        n, m: The rollouts of a prompt, and its rows in the update.
        micro_batches: Into how many the rows are split, by gradient accumulation.
        method: The method of podsrl.
    """

    name: str
    prompts: int
    n: int
    m: int
    micro_batches: int = 1
    method: str = "pods"

    @property
    def rollouts(self) -> int:
        """The rollouts of a step."""
        return self.prompts * self.n

    @property
    def rows(self) -> int:
        """The rows of a step."""
        return self.prompts * self.m


@dataclass(frozen=True)
class Case:
    """One measurement.

    Args:
        shape: A name of `SHAPES`.
        arm: How a step spends its rollouts.
        answer: The tokens of every completion.
        lora: Whether only adapters are trained, of rank 64 as in the paper; else all weights are.
        checkpointing: Whether activations are computed anew in the backward pass.
        repetition: Which one, where a case is measured again for its spread.
    """

    shape: str
    arm: Arm
    answer: int = 512
    lora: bool = True
    checkpointing: bool = True
    repetition: int = 0

    def as_json(self) -> dict[str, Any]:
        """Plain values, by which a case is recognised in the raw file."""
        return asdict(self)


GRPO = Arm("GRPO", prompts=1, n=16, m=16, method="grpo")
GRPO_GA = Arm("GRPO-GA", prompts=1, n=64, m=64, micro_batches=4, method="grpo")
PODS = Arm("PODS", prompts=1, n=64, m=16)
ACROSS = Arm("max_contrast", prompts=16, n=4, m=1, method="max_contrast")
#: The arms that are compared at every size.
ARMS = (GRPO, GRPO_GA, PODS, ACROSS)

#: The n of the paper's first figure, for the size at which all are measured.
_ALL_N = (32, 128, 256)


def plan() -> Iterator[Case]:
    """All cases. A size's first case also warms the device up."""
    yield from (Case("3B", arm) for arm in ARMS)
    yield from (Case("1.5B", arm) for arm in ARMS)
    yield from (Case("1.5B", replace(PODS, n=n)) for n in _ALL_N)
    for shape in ("0.5B", "7B"):
        yield from (Case(shape, arm) for arm in ARMS)

    # The spread of one size, in the same go.
    yield from (Case("3B", arm, repetition=1) for arm in (GRPO, PODS))

    yield from (Case("1.5B", arm, checkpointing=False) for arm in (GRPO, PODS))
    yield from (Case("1.5B", arm, lora=False) for arm in (GRPO, PODS))
    yield from (Case("1.5B", arm, answer=2048) for arm in (GRPO, PODS))

    # What fits: more rows in one pass, and more rollouts. The first that does not ends its row.
    yield from (Case("3B", replace(GRPO, n=m, m=m)) for m in (32, 64, 128))
    yield from (Case("3B", replace(PODS, n=n)) for n in (256, 512, 1024))


def small_plan() -> Iterator[Case]:
    """The same kinds of cases, in seconds on a CPU."""
    yield from (Case("tiny", arm, answer=8) for arm in ARMS)
    yield from (Case("tiny", replace(PODS, n=n), answer=8) for n in (32, 128))
    yield from (Case("tiny", arm, answer=8, repetition=1) for arm in (GRPO, PODS))
    yield Case("tiny", PODS, answer=8, checkpointing=False)
    yield Case("tiny", PODS, answer=8, lora=False)
