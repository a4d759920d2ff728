"""The plan of the cases: the most important first, since time on a GPU is short."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.sizes.raw_file import Line
from benchmarks.sizes.shapes import PROMPT_TOKENS, SHAPES


@dataclass(frozen=True)
class Arm:
    """The rollouts and rows of a step.

    Args:
        name: Its name in tables.
        prompts: The prompts of a step.
        n, m: The rollouts of a prompt, and its rows in the update.
        micro_batches: The number of parts of the rows, by gradient accumulation.
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
        repetition: The number of the repetition, where a case is measured again for its spread.
        generates: Whether the whole step is measured; else its update alone, on random tokens,
            which takes a few seconds in place of half a minute.
        continuous: Whether transformers generates by continuous batching.
    """

    shape: str
    arm: Arm
    answer: int = 512
    lora: bool = True
    checkpointing: bool = True
    repetition: int = 0
    generates: bool = True
    continuous: bool = False

    def as_json(self) -> dict[str, Any]:
        """Plain values, by which a case is recognised in the raw file."""
        return asdict(self)

    def is_no_smaller_than(self, other: "Case") -> bool:
        """Whether it needs at least the memory of another case: alike, except for n and m."""
        alike = replace(self.arm, n=other.arm.n, m=other.arm.m)
        same_otherwise = replace(self, arm=alike, repetition=other.repetition) == other
        return same_otherwise and self.arm.n >= other.arm.n and self.arm.m >= other.arm.m

    @property
    def foreseen_seconds(self) -> float:
        """Roughly how long it takes on an H200, to know what still fits into the time that is left.

        Generation launches as many kernels for each layer and token whatever the rollouts are, and
        the processor is what it waits for, up to some hundred of them. With adapters that is some
        0.1 s for each token of 3B (results/sizes.md). The update is arithmetic.
        """
        shape = SHAPES[self.shape]
        tokens = self.answer if self.generates else 0
        generating = tokens * shape.layers * (2.8e-3 + 6e-6 * self.arm.rollouts)
        row = (PROMPT_TOKENS + self.answer) * shape.weights * 3e-14
        return 8.0 + generating + 2 * self.arm.rows * row


GRPO = Arm("GRPO", prompts=1, n=16, m=16, method="grpo")
GRPO_GA = Arm("GRPO-GA", prompts=1, n=64, m=64, micro_batches=4, method="grpo")
PODS = Arm("PODS", prompts=1, n=64, m=16)
ACROSS = Arm("max_contrast", prompts=16, n=4, m=1, method="max_contrast")
#: The arms that are compared at every size.
ARMS = (GRPO, PODS, GRPO_GA, ACROSS)

#: Rows of a pass of which the update alone is measured at every size. With the 16 of the arms
#: they tell what a pass costs whatever its rows are.
_ROWS_OF_A_PASS = (8, 32)


def plan() -> Iterator[Case]:
    """All cases, in the order in which they are given up where time runs short: the last first."""
    sizes = ("3B", "1.5B", "7B", "0.5B")

    # An update alone takes some ten seconds, a whole step with its generation a minute.
    for shape in sizes:
        yield from (_update_alone(shape, rows) for rows in _ROWS_OF_A_PASS)
    for shape in sizes:
        yield from (Case(shape, arm) for arm in ARMS)

    # The spread of one size, in the same go, and the largest n of the paper's first figure.
    yield from (Case("3B", arm, repetition=1) for arm in (GRPO, PODS))
    yield Case("1.5B", replace(PODS, n=256))

    # Without checkpointing the update alone differs.
    yield Case("1.5B", GRPO, checkpointing=False, generates=False)
    yield from (Case("1.5B", arm, lora=False) for arm in (GRPO, PODS))
    yield from (Case("3B", arm, continuous=True) for arm in (GRPO, PODS))

    # What fits: more rows in one pass, and more rollouts. The first that does not ends its row.
    for shape in ("3B", "7B", "1.5B", "0.5B"):
        yield from (_update_alone(shape, rows) for rows in (64, 128, 256, 512))
    yield from (Case("3B", replace(PODS, n=n)) for n in (256, 512, 1024))

    yield from (Case("1.5B", replace(PODS, n=n)) for n in (32, 128))
    yield from (Case("1.5B", arm, answer=2048) for arm in (PODS, GRPO))


def small_plan() -> Iterator[Case]:
    """The same kinds of cases, in seconds on a CPU; but for continuous batching, which is slow."""
    yield from (Case("tiny", arm, answer=8) for arm in ARMS)
    yield from (replace(_update_alone("tiny", rows), answer=8) for rows in _ROWS_OF_A_PASS)
    yield from (Case("tiny", replace(PODS, n=n), answer=8) for n in (32, 128))
    yield from (Case("tiny", arm, answer=8, repetition=1) for arm in (GRPO, PODS))
    yield Case("tiny", PODS, answer=8, checkpointing=False)
    yield Case("tiny", PODS, answer=8, lora=False)


def _update_alone(shape: str, rows: int) -> Case:
    """The update on so many rows in one pass."""
    return Case(shape, replace(GRPO, n=rows, m=rows), generates=False)


def missing(cases: Iterable[Case], lines: Sequence[Line]) -> list[Case]:
    """The cases of which the file has no result; what failed is tried again."""
    done = [line["case"] for line in lines if line["fits"] is not None]
    return [case for case in cases if case.as_json() not in done]


def in_words(case: Case) -> str:
    """A case in a line of the log."""
    arm = case.arm
    what = "" if case.generates else ", the update alone"
    kind = {
        "all weights": not case.lora,
        "no checkpointing": not case.checkpointing,
        "continuous batching": case.continuous,
        "again": case.repetition > 0,
    }
    others = "".join(f", {words}" for words, holds in kind.items() if holds)
    return (
        f"{case.shape} {arm.name} {arm.rollouts} -> {arm.rows}, {case.answer} tokens{what}{others}"
    )


def did_not_fit(case: Case, lines: Sequence[Line]) -> bool:
    """Whether a case that needs no more memory was tried, and did not fit."""
    tried = [case_of(line) for line in lines if line["fits"] is False]
    return any(case.is_no_smaller_than(other) for other in tried)


def case_of(line: Line) -> Case:
    """The case of a line of the raw file."""
    values = line["case"]
    return Case(**{**values, "arm": Arm(**values["arm"])})
