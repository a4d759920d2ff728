"""The cases, the most important first, and how long each takes on an H200 about."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

from benchmarks.sizes.plan import Arm
from benchmarks.sizes.plan import Case as Step
from benchmarks.sizes.raw_file import Line
from benchmarks.sizes.shapes import PROMPT_TOKENS, SHAPES
from benchmarks.sizes.steps import TRANSFORMERS, VLLM

SMOLLM2 = "SmolLM2-135M"
#: What generates where there is no GPU, and so no vLLM.
IN_ITS_PLACE = "transformers, in place of vLLM"
#: A step that warms up, and those that are measured, of each case with a whole trainer.
WARM_UP_STEPS = 1
MEASURED_STEPS = 3
STEPS = WARM_UP_STEPS + MEASURED_STEPS

#: After so many failures a case is not tried again.
_MOST_FAILURES = 2
_ROLLOUTS = (16, 64, 256)
_ROWS = 16
_KEPT = 8
#: Tokens of every completion. Of SmolLM2 they are fewer, since transformers generates there, too.
_ANSWER = 512
_ANSWER_OF_SMOLLM2 = 64


@dataclass(frozen=True)
class Case:
    """One measurement: a line of the raw file."""

    #: The name of what is done; `benchmarks.card.measure` has a function for each.
    kind: ClassVar[str]
    #: What a process of this kind takes before its first case, on an H200 about.
    starting_seconds: ClassVar[float] = 5.0

    def as_json(self) -> dict[str, Any]:
        """Plain values, by which a case is recognised in the raw file."""
        return {"kind": self.kind, **asdict(self)}

    @property
    def process(self) -> tuple[Any, ...]:
        """What a case has in common with those beside it in the same process."""
        return (self,)

    @property
    def foreseen_seconds(self) -> float:
        """The seconds on an H200 about, without those in which its process starts."""
        raise NotImplementedError

    @property
    def needed_seconds(self) -> float:
        """The seconds without which its process is not started."""
        return self.starting_seconds + self.foreseen_seconds

    @property
    def title(self) -> str:
        """The case in a line of the log."""
        raise NotImplementedError

    def small(self) -> "Case":
        """The same kind of case in seconds on a CPU."""
        raise NotImplementedError


@dataclass(frozen=True)
class Training(Case):
    """Steps of a whole trainer: one prompt, n rollouts of it, and an update on m of them.

    Cases that differ in nothing but the rollouts and their reading share a process, since an engine
    takes longer to start than to generate.

    Args:
        model: SMOLLM2, or a name of `SHAPES`.
        engine: What generates.
        n: The rollouts of the prompt.
        answer: The tokens of every completion.
        once: Whether transformers reads the prompt once for all its rollouts.
        m: The rows of the update.
    """

    model: str
    engine: str
    n: int
    answer: int = _ANSWER
    once: bool = False
    m: int = _ROWS

    kind = "training"
    starting_seconds = 20.0

    @property
    def process(self) -> tuple[Any, ...]:
        """The model, what generates, and the lengths."""
        return (self.kind, self.model, self.engine, self.answer, self.m)

    @property
    def foreseen_seconds(self) -> float:
        """By the seconds of results/sizes.md, and one for what a trainer has besides."""
        layers, weights = _layers_and_weights(self.model)
        each_token = 8e-5 + 6e-7 * self.n if self.engine == VLLM else 1e-3
        generating = self.answer * layers * each_token
        updating = self.m * (PROMPT_TOKENS + self.answer) * weights * 3e-14
        return STEPS * (generating + updating + 1.0)

    @property
    def title(self) -> str:
        """Model, rollouts and rows, and what generates."""
        once = ", each prompt read once" if self.once else ""
        sizes = f"{self.n} -> {self.m}, {self.answer} tokens"
        return f"a trainer of {self.model}, {sizes}, by {self.engine}{once}"

    def small(self) -> "Training":
        """With a tiny model and short completions, by transformers."""
        engine = IN_ITS_PLACE if self.engine == VLLM else self.engine
        return replace(self, model="tiny", engine=engine, answer=4)


@dataclass(frozen=True)
class Peak(Case):
    """The peak memory of an update on m rows in one pass, behind n rollouts.

    Args:
        model: A name of `SHAPES`; adapters are trained.
        n, m: The rollouts of the prompt, and the rows of the update.
        answer: The tokens of every row's completion.
    """

    model: str
    n: int
    m: int
    answer: int = _ANSWER

    kind = "peak"

    @property
    def step(self) -> Step:
        """The same as a case of `benchmarks.sizes`, which measures it."""
        method = "grpo" if self.n == self.m else "pods"
        arm = Arm(method, prompts=1, n=self.n, m=self.m, method=method)
        return Step(self.model, arm, answer=self.answer, generates=False)

    @property
    def foreseen_seconds(self) -> float:
        """As `benchmarks.sizes` foresees it, less the start of the process."""
        return self.step.foreseen_seconds - self.starting_seconds

    @property
    def title(self) -> str:
        """Model, rollouts and rows."""
        return f"the peak of an update of {self.model}, {self.n} -> {self.m}"

    def small(self) -> "Peak":
        """With a tiny model."""
        return replace(self, model="tiny", answer=8)


@dataclass(frozen=True)
class Comparison(Case):
    """Methods by the clock, with SmolLM2 on questions about a paragraph: stories.yaml.

    It takes what the cases after it leave, and goes on next time where that was too short.

    Args:
        is_small: With a tiny model, and a few steps.
    """

    is_small: bool = False

    kind = "comparison"
    foreseen_seconds = 220.0
    needed_seconds = 60.0
    title = "a comparison by the clock, benchmarks/card/stories.yaml"

    def small(self) -> "Comparison":
        """With a tiny model, and a few steps."""
        return replace(self, is_small=True)


@dataclass(frozen=True)
class TwoProcesses(Case):
    """A training of two processes on one card, over NCCL if it allows that, else over gloo.

    Args:
        steps: The optimiser steps.
    """

    steps: int = 2

    kind = "two processes"
    foreseen_seconds = 60.0
    title = "two processes on one card"

    def small(self) -> "TwoProcesses":
        """The same: the model is tiny anyway."""
        return self


def plan() -> list[Case]:
    """All cases; the last ones are given up first where time runs short."""
    return [*_trainings(), *_peaks(), Comparison(), TwoProcesses()]


def small_plan() -> list[Case]:
    """The same kinds of cases in minutes on a CPU; what differs by its model there is one case."""
    return list(dict.fromkeys(case.small() for case in plan()))


def _trainings() -> Iterator[Training]:
    smollm2 = Training(SMOLLM2, VLLM, n=_ROWS, answer=_ANSWER_OF_SMOLLM2)
    yield from (replace(smollm2, n=n) for n in _ROLLOUTS)
    for n in _ROLLOUTS:
        for once in (True, False):
            yield replace(smollm2, engine=TRANSFORMERS, n=n, once=once)
    for shape in ("3B", "1.5B", "7B", "0.5B"):
        yield from (Training(shape, VLLM, n) for n in _ROLLOUTS)


def _peaks() -> Iterator[Peak]:
    yield from (Peak("3B", rows, rows) for rows in (8, 16, 32, 64))
    yield from (Peak("3B", n, _KEPT) for n in (16, 32, 64))


def missing(cases: Iterable[Case], lines: Sequence[Line]) -> list[Case]:
    """The cases that have no whole line yet, and failed less than twice."""
    whole = [line["case"] for line in lines if "found" in line and not is_unfinished(line)]
    failed = [line["case"] for line in lines if "failed" in line]
    return [
        case
        for case in cases
        if case.as_json() not in whole and failed.count(case.as_json()) < _MOST_FAILURES
    ]


def is_unfinished(line: Line) -> bool:
    """Whether the case of a line was stopped before its end, and goes on next time."""
    return bool(line.get("found", {}).get("unfinished"))


def by_process(cases: Iterable[Case]) -> list[list[Case]]:
    """The cases, those together that share a process."""
    return [list(group) for _, group in groupby(cases, key=lambda case: case.process)]


def foreseen_seconds(group: Sequence[Case]) -> float:
    """The seconds of a process with these cases, from its start, on an H200 about."""
    return group[0].starting_seconds + sum(case.foreseen_seconds for case in group)


def _layers_and_weights(model: str) -> tuple[int, float]:
    if model == SMOLLM2:
        return 30, 1.35e8
    return SHAPES[model].layers, SHAPES[model].weights
