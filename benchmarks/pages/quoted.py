"""The measured numbers that pages state in sentences, which people write, and where they are from.

Each is given with a few words that stand before it. `benchmarks/tests/test_numbers_of_pages.py`
fails where a page says another number.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.folders import RESULTS, ROOT
from benchmarks.worth import authors, ours
from benchmarks.worth.costs import Machine, machines
from podslab.statistics.worth import StepValue

README = ROOT / "README.md"
EVIDENCE = ROOT / "docs" / "evidence.md"
METHODS = ROOT / "docs" / "methods.md"
FAQ = ROOT / "docs" / "faq.md"
TRL = ROOT / "docs" / "trl.md"
PAYS = ROOT / "docs" / "does-it-pay.md"
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
        """What the page should say."""
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
    Quote(
        WORTH,
        "in the long runs on steps, where a step cost {}",
        lambda: (cost_of(ours.value(ours.LONG[1], "pods")),),
    ),
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
QUOTES: tuple[Quote, ...] = _IN_WORTH
