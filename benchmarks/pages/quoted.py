"""The measured numbers that pages state in sentences, which people write, and where they are from.

Each is given with a few words that stand before it. `benchmarks/tests/test_numbers_of_pages.py`
fails where a page says another number.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.folders import RESULTS, ROOT
from benchmarks.sizes.page import whole_seconds
from benchmarks.sizes.plan import GRPO, GRPO_GA, PODS
from benchmarks.sizes.raw_file import read_raw
from benchmarks.sizes.steps import VLLM, Measured, Step
from benchmarks.worth import authors, ours
from benchmarks.worth.costs import Machine, machines
from podslab.statistics.differences import Difference
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


def _of_points(found: Difference, *, interval: bool = False) -> tuple[str, ...]:
    """A difference in points, with its interval by seeds."""
    mean = f"{100 * found.mean:+.1f}"
    return (mean, f"{100 * found.low:.1f}", f"{100 * found.high:.1f}") if interval else (mean,)


def _samples(stage: ours.Stage) -> str:
    """PODS from grpo-8 by pass@1 at the end."""
    (mean,) = _of_points(ours.samples_at_the_end(stage, "pods", ours.REFERENCE))
    return mean


def _at_equal_rollouts(stage: ours.Stage) -> tuple[str, ...]:
    found = ours.difference_from(stage, "rejection-sampling", ours.REFERENCE, axis="rollouts")
    return _of_points(found, interval=True)


def _behind_large_batches(arm: str) -> str:
    found = ours.difference_from(ours.BATCH[0], arm, "grpo-8x4")
    return f"{-100 * found.mean:.1f}"


def _to_level(level: float) -> str:
    (setting,) = [one for one in authors.SIZES if one.n == 64]
    reference, pods = authors.curves(setting)
    found = speed_up(reference, pods, caught_up=level)
    return f"{found.ratio:.2f}"


_MEASURED = Measured(read_raw(RESULTS / "sizes.jsonl"), read_raw(RESULTS / "sizes-vllm.jsonl"))


def _h200(shape: str) -> tuple[Step, Step, Step]:
    """Steps of GRPO, PODS and GRPO-GA with vLLM."""
    steps = [_MEASURED.step(shape, arm, VLLM) for arm in (GRPO, PODS, GRPO_GA)]
    grpo, pods, accumulating = steps
    assert grpo is not None
    assert pods is not None
    assert accumulating is not None
    return grpo, pods, accumulating


def _costs_on_h200() -> tuple[str, str]:
    costs = []
    for shape in ("3B", "1.5B"):
        grpo, pods, _ = _h200(shape)
        costs.append(f"{pods.seconds / grpo.seconds:.2f}")
    return costs[0], costs[1]


def _share_of_generating(shape: str) -> str:
    grpo, _, _ = _h200(shape)
    return f"{100 * grpo.generating / grpo.seconds:.0f} %"


def _added(what: str) -> tuple[str, str]:
    """Seconds that four times as many rollouts or rows add, of 3B and of 1.5B."""
    found = []
    for shape in ("3B", "1.5B"):
        grpo, pods, accumulating = _h200(shape)
        rollouts = pods.generating - grpo.generating
        rows = accumulating.updating - grpo.updating
        found.append(f"{rollouts if what == 'rollouts' else rows:.1f}")
    return found[0], found[1]


def _with_transformers() -> tuple[str, ...]:
    return tuple(f"{seconds:.1f}" for seconds in whole_seconds(_MEASURED, "3B"))


def _size_of(n: int, m: int) -> StepValue:
    (setting,) = [one for one in authors.SETTINGS if (one.name, one.n, one.m) == ("GSM8K", n, m)]
    return authors.value(setting)


def _math() -> tuple[str, str]:
    return worth_of(authors.value(authors.MATH)), cost_of(authors.value(authors.MATH))


def _llama() -> tuple[str, str]:
    return worth_of(authors.value(authors.LLAMA)), cost_of(authors.value(authors.LLAMA))


_ON_FRONT = (
    Quote(README, "taught as much as {} steps of GRPO with 16, and took {} times", _sixty_four),
    Quote(
        README,
        "a step of 64 → 16 of a model of 3B took {} times as long",
        lambda: (_costs_on_h200()[0],),
    ),
)
_IN_EVIDENCE = (
    Quote(EVIDENCE, "is worth {} steps of GRPO on GSM8K with Qwen2.5-3B, and took {}", _sixty_four),
    Quote(EVIDENCE, "it is worth {} and cost {}", _math),
    Quote(
        EVIDENCE,
        "{} times as fast to 99 % of GRPO's best accuracy, and {} times to 97 %",
        lambda: (_to_level(0.99), _to_level(0.97)),
    ),
    Quote(EVIDENCE, "By right answers alone a step is worth {} and took {} times", _llama),
    Quote(
        EVIDENCE,
        "from n = 64 to n = 256 worth rises from {} to {}, and cost from {} to {}",
        lambda: (
            *(worth_of(_size(n)) for n in (64, 256)),
            *(cost_of(_size(n)) for n in (64, 256)),
        ),
    ),
    Quote(EVIDENCE, "m = 2 is worth {}", lambda: (worth_of(_size_of(64, 2)),)),
    Quote(EVIDENCE, "random rows of 64 are worth {}", lambda: (worth_of(_random_rows()),)),
    Quote(
        EVIDENCE,
        "took {} times as long as one of GRPO, 16 → 16; for 1.5B {} times",
        _costs_on_h200,
    ),
    Quote(
        EVIDENCE,
        "generating took {} and {} of GRPO's step, and four times as many rollouts added {} and"
        " {} s. Four times as many rows added {} and {} s",
        lambda: (
            _share_of_generating("3B"),
            _share_of_generating("1.5B"),
            *_added("rollouts"),
            *_added("rows"),
        ),
    ),
    Quote(EVIDENCE, "GRPO took {} s, PODS {} s and GRPO-GA {} s", _with_transformers),
    Quote(EVIDENCE, "256 → 16 pays for 3B, {} times", lambda: (_gain_of(_H200, 16),)),
    Quote(
        EVIDENCE,
        "whatever the share of right answers: {} to {}",
        lambda: _of_all_stages("pods", "worth"),
    ),
    Quote(
        EVIDENCE,
        "By samples worth / cost was {} on middle and {} on steps",
        _long_by_samples,
    ),
    Quote(EVIDENCE, "Cost was about two as well, {} to {}", lambda: _of_all_stages("pods", "cost")),
    Quote(
        EVIDENCE,
        "PODS ends {} points from grpo-8 on easy, {} on middle, {} on hard and {} on steps. After"
        " 180 s it is {} on steps",
        lambda: tuple(map(_samples, (*ours.SHORT, ours.LONG[1]))),
    ),
    Quote(
        EVIDENCE,
        "right answers alone are: {} points on middle ({} to {}), and {} on steps ({} to {})",
        lambda: (*_at_equal_rollouts(ours.LONG[0]), *_at_equal_rollouts(ours.LONG[1])),
    ),
    Quote(
        EVIDENCE,
        "grpo-8 is {} points behind and PODS {}, both worse",
        lambda: tuple(map(_behind_large_batches, ("grpo-8", "pods"))),
    ),
)
_IN_GUIDES = (
    Quote(METHODS, "64 → 16 is worth {} steps of GRPO on GSM8K, and took {} times", _sixty_four),
    Quote(
        METHODS,
        "worth {} to {} steps of GRPO with 8 rollouts",
        lambda: _of_all_stages("rejection-sampling", "worth"),
    ),
    Quote(
        METHODS,
        "was worth {} to {} steps and cost {} to {}",
        lambda: (*_of_all_stages("pods", "worth"), *_of_all_stages("pods", "cost")),
    ),
    Quote(
        METHODS,
        "a step is worth {}, {}, {} and {} for n = 32, 64, 128 and 256, and it cost {}, {}, {}"
        " and {}",
        lambda: (
            *(worth_of(_size(n)) for n in (32, 64, 128, 256)),
            *(cost_of(_size(n)) for n in (32, 64, 128, 256)),
        ),
    ),
    Quote(
        METHODS,
        "With n = 64 it is worth {}, {} and {} for m = 8, 4 and 2",
        lambda: tuple(worth_of(_size_of(64, m)) for m in (8, 4, 2)),
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
