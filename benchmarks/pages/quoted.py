"""The measured numbers that pages state in sentences, which people write, and where they are from.

Each is given with a few words that stand before it. `benchmarks/tests/test_numbers_of_pages.py`
fails where a page says another number.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import first_run
from benchmarks.folders import RESULTS, ROOT
from benchmarks.sizes.plan import GRPO, PODS
from benchmarks.sizes.raw_file import read_raw
from benchmarks.sizes.steps import VLLM, Measured, Step
from benchmarks.studies import outcome
from benchmarks.worth import authors, ours
from benchmarks.worth.costs import Machine, machines
from podslab.statistics.speedup import speed_up
from podslab.statistics.worth import StepValue

README = ROOT / "README.md"
EVIDENCE = ROOT / "docs" / "evidence.md"
METHODS = ROOT / "docs" / "methods.md"
FAQ = ROOT / "docs" / "faq.md"
TRL = ROOT / "docs" / "trl.md"
WORTH = RESULTS / "worth.md"


@dataclass(frozen=True)
class Quote:
    """A number in a sentence.

    Args:
        page: The page.
        words: What stands there, with {} in place of each number.
        numbers: Gives these numbers, as they are written.
    """

    page: Path
    words: str
    numbers: Callable[[], tuple[str, ...]]

    def is_there(self) -> bool:
        """Whether the page says so; line breaks and the marks of bold words do not count."""
        return self.said() in plain(self.page.read_text(encoding="utf-8"))

    def said(self) -> str:
        """The sentence that the page should have."""
        return self.words.format(*self.numbers())


def plain(page: str) -> str:
    """A page in one line, without the marks of bold words and of code."""
    return re.sub(r"\s+", " ", page.replace("**", "").replace("`", ""))


def _size(n: int) -> StepValue:
    (setting,) = [setting for setting in authors.SIZES if setting.n == n]
    return authors.value(setting)


def _random_rows() -> StepValue:
    (setting,) = [one for one in authors.SETTINGS if "random" in one.name]
    return authors.value(setting)


def worth_of(found: StepValue, digits: int = 2) -> str:
    """A worth as it is written."""
    assert found.worth is not None
    return f"{found.worth.value:.{digits}f}"


def cost_of(found: StepValue, digits: int = 2) -> str:
    """A cost as it is written."""
    assert found.cost is not None
    return f"{found.cost.value:.{digits}f}"


def _first_run() -> tuple[str, ...]:
    """The right answers of PODS in the first step and in the last ten; its steps, its minutes."""
    (run,) = [run for run in first_run.runs(whole=True) if run.arm == "pods"]
    first, last = (f"{100 * share:.1f}" for share in (run.right_T[0], run.windows()[-1]))
    return first, last, str(len(run.right_T)), f"{sum(run.seconds_T) / 60:.0f}"


#: Names of machines.
_L40S, _H200 = "L40S, the authors', 3B", "H200, vLLM, 3B"


def _machine(name: str) -> Machine:
    (found,) = [machine for machine in machines() if machine.name == name]
    return found


def _gain_of(name: str, size: int) -> str:
    return f"{_machine(name).gain(size):.2f}"


def _range(values: list[float], digits: int = 2) -> tuple[str, str]:
    return f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"


def _of_all_stages(arm: str, what: str, digits: int = 2) -> tuple[str, str]:
    """The least and the most over our stages of an arm's worth or cost."""
    found = [ours.value(stage, arm) for stage in ours.STAGES if arm in ours.arms(stage)]
    ratios = [getattr(one, what) for one in found]
    return _range([ratio.value for ratio in ratios if ratio is not None], digits)


def _long_by_samples() -> tuple[str, ...]:
    """Worth over cost of PODS by pass@1 in the long runs."""
    gains = [ours.value(stage, "pods", measure="pass_1").gain for stage in ours.LONG]
    return tuple(f"{gain.value:.2f}" for gain in gains if gain is not None)


def _form(at: int) -> tuple[str, str]:
    """The share in the asked form of GRPO and of PODS, 64 -> 16, at a point; GSM8K, Qwen."""
    (setting,) = [one for one in authors.SIZES if one.n == 64]
    return _shares(setting, at)


def _shares(setting: authors.Setting, at: int) -> tuple[str, str]:
    pair = authors.curves(setting, authors.FORM)
    first, second = (f"{100 * curves.accuracy[:, at].mean():.0f} %" for curves in pair)
    return first, second


_IN_WORTH = (
    Quote(
        WORTH,
        "a step of 64 → 16 is worth {} steps of GRPO, and took {} times as long",
        lambda: (worth_of(_size(64)), cost_of(_size(64))),
    ),
    Quote(
        WORTH,
        "worth rises from {} to {}, and cost from {} to {}",
        lambda: (
            *(worth_of(_size(n)) for n in (64, 256)),
            *(cost_of(_size(n)) for n in (64, 256)),
        ),
    ),
    Quote(
        WORTH,
        "for 3B 256 → 16 is {} times as good as GRPO, and on the authors' card {} times",
        lambda: (
            _gain_of(_H200, 16),
            _gain_of(_L40S, 16),
        ),
    ),
    Quote(
        WORTH,
        "with 16 random rows of 64 a step is worth {}",
        lambda: (worth_of(_random_rows()),),
    ),
    Quote(
        WORTH,
        "By right answers a step is worth {}, and took {} times as long",
        lambda: (worth_of(authors.value(authors.LLAMA)), cost_of(authors.value(authors.LLAMA))),
    ),
    Quote(
        WORTH,
        "is worth {} to {} steps of GRPO with 8 rollouts, and took {} to {} times as long",
        lambda: (*_of_all_stages("pods", "worth"), *_of_all_stages("pods", "cost")),
    ),
    Quote(
        WORTH,
        "the worth was {} where 36 % of samples were right, and {} where 2 % were",
        lambda: tuple(worth_of(ours.value(ours.SHORT[place], "pods")) for place in (0, 3)),
    ),
    Quote(
        WORTH,
        "in {} of cases at the start, and in {} at the end; with PODS, 64 → 16, in {}",
        lambda: (_form(0)[0], *_form(-1)),
    ),
    Quote(
        WORTH,
        "GRPO ends at {} and PODS at {}",
        lambda: _shares(authors.LLAMA, -1),
    ),
    Quote(WORTH, "worth / cost was {} on middle and {} on steps", _long_by_samples),
    Quote(
        WORTH,
        "(rejection-sampling) are worth {} to {} steps",
        lambda: _of_all_stages("rejection-sampling", "worth"),
    ),
    Quote(
        WORTH,
        "max_contrast is worth {} to {}",
        lambda: _of_all_stages("max_contrast", "worth"),
    ),
    Quote(
        WORTH,
        "(grpo-ga) is worth {} to {}",
        lambda: _of_all_stages("grpo-ga", "worth"),
    ),
    Quote(
        WORTH,
        "(random-row) are worth {} on steps and {} on easy",
        lambda: tuple(worth_of(ours.value(ours.SHORT[place], "random-row")) for place in (3, 0)),
    ),
)


def _sixty_four() -> tuple[str, str]:
    return worth_of(_size(64)), cost_of(_size(64))


def _at_equal_rollouts(stage: ours.Stage) -> tuple[str, ...]:
    """Points of right answers alone from grpo-8, with the interval by seeds."""
    found = ours.difference_from(stage, "rejection-sampling", ours.REFERENCE, axis="rollouts")
    return tuple(f"{100 * points:.1f}" for points in (found.mean, found.low, found.high))


def _to_level(level: float) -> str:
    (setting,) = [one for one in authors.SIZES if one.n == 64]
    reference, pods = authors.curves(setting)
    found = speed_up(reference, pods, caught_up=level)
    return f"{found.ratio:.2f}"


_MEASURED = Measured(read_raw(RESULTS / "sizes.jsonl"), read_raw(RESULTS / "sizes-vllm.jsonl"))


def _h200(shape: str) -> tuple[Step, Step]:
    """Steps of GRPO and of PODS with vLLM."""
    grpo, pods = (_MEASURED.step(shape, arm, VLLM) for arm in (GRPO, PODS))
    assert grpo is not None
    assert pods is not None
    return grpo, pods


def _costs_on_h200() -> tuple[str, str]:
    costs = []
    for shape in ("3B", "1.5B"):
        grpo, pods = _h200(shape)
        costs.append(f"{pods.seconds / grpo.seconds:.2f}")
    return costs[0], costs[1]


def _share_of_generating(shape: str) -> str:
    grpo, _ = _h200(shape)
    return f"{100 * grpo.generating / grpo.seconds:.0f} %"


def _math() -> tuple[str, str]:
    return worth_of(authors.value(authors.MATH)), cost_of(authors.value(authors.MATH))


def _llama() -> tuple[str, str]:
    return worth_of(authors.value(authors.LLAMA)), cost_of(authors.value(authors.LLAMA))


def _where_generating_is_cheap() -> tuple[str, ...]:
    """Of PODS with long prompts and short answers: worth, cost, and their quotient's interval."""
    found, _ = outcome.decision("long-prompts")
    value = found.worths["pods"]
    gain = value.gain
    assert gain is not None
    return worth_of(value), cost_of(value), *(f"{x:.2f}" for x in (gain.value, gain.low, gain.high))


_ON_FRONT = (
    Quote(
        README,
        "with a small model a step was worth {} steps of GRPO and cost {}, so worth / cost is {}"
        " ({} to {})",
        _where_generating_is_cheap,
    ),
    Quote(
        README,
        "from {} to {} % in {} steps, in {} minutes on one core of a CPU",
        _first_run,
    ),
    Quote(
        README,
        "taught as much as {} steps of GRPO with 16. It took {} times as long. So an hour of PODS"
        " was worth {} hours",
        lambda: (*_sixty_four(), _gain_of(_L40S, 4)),
    ),
    Quote(
        README,
        "a step of 64 → 16 of a 3B model took {} times as long",
        lambda: (_costs_on_h200()[0],),
    ),
)
_IN_EVIDENCE = (
    Quote(
        EVIDENCE,
        "On GSM8K a step of 64 → 16 is worth {} steps of GRPO, and took {} times as long",
        _sixty_four,
    ),
    Quote(EVIDENCE, "On MATH a step of 32 → 8 is worth {}, and cost {}", _math),
    Quote(
        EVIDENCE,
        "{} times as fast to 99 % of GRPO's best accuracy, and {} times to 97 %",
        lambda: (_to_level(0.99), _to_level(0.97)),
    ),
    Quote(EVIDENCE, "By right answers alone a step is worth {} and took {} times", _llama),
    Quote(EVIDENCE, "random rows of 64 are worth {}", lambda: (worth_of(_random_rows()),)),
    Quote(
        EVIDENCE,
        "took {} times as long as a step of GRPO, 16 → 16, for 3B, and {} times for 1.5B",
        _costs_on_h200,
    ),
    Quote(EVIDENCE, "256 → 16 pays for 3B, {} times", lambda: (_gain_of(_H200, 16),)),
    Quote(
        EVIDENCE,
        "A step was worth {} to {} steps of GRPO and cost {} to {}",
        lambda: (*_of_all_stages("pods", "worth"), *_of_all_stages("pods", "cost")),
    ),
    Quote(
        EVIDENCE,
        "(pass@1) PODS did not pay in the runs of 180 s: worth / cost was {} on middle and {} on"
        " steps",
        _long_by_samples,
    ),
    Quote(
        EVIDENCE,
        "ahead: by {} points on middle ({} to {}), and by {} on steps ({} to {})",
        lambda: (*_at_equal_rollouts(ours.LONG[0]), *_at_equal_rollouts(ours.LONG[1])),
    ),
)
_IN_GUIDES = (
    Quote(
        METHODS,
        "worth {} to {} steps of GRPO with 8 rollouts",
        lambda: _of_all_stages("rejection-sampling", "worth"),
    ),
    Quote(FAQ, "64 → 16 was worth {} steps of GRPO and took {} times as long", _sixty_four),
    Quote(TRL, "and it says which: {} for n = 4 m", lambda: _sixty_four()[:1]),
    Quote(
        TRL,
        "generating took {} of a step of 3B, and a step of 64 → 16 took [{} times",
        lambda: (_share_of_generating("3B"), _costs_on_h200()[0]),
    ),
)
#: Every number that is held to the files.
QUOTES = (*_IN_WORTH, *_ON_FRONT, *_IN_EVIDENCE, *_IN_GUIDES)
