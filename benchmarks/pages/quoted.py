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
from podslab.statistics.worth import StepValue, step_value

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


def _worth_in(study: str, arm: str) -> str:
    found, _ = outcome.decision(study)
    return worth_of(found.worths[arm])


def _controls() -> tuple[str, ...]:
    """Of rejection sampling worth, cost, worth with few prompts; and what wrong answers take."""
    found, _ = outcome.decision("controls-hard")
    lead = found.worths["rejection-sampling"]
    few = worth_of(found.worths["rejection-few"])
    gained = _points_without_wrong_answers("controls-hard")
    return worth_of(lead), cost_of(lead), few, f"{gained:.1f}"


def _points_without_wrong_answers(study: str) -> float:
    """The points over the run that max_contrast gains if its wrong answers teach nothing."""
    return 100 * outcome.paired(study, "contrast-right", "max_contrast").mean


def _methods_in_steps() -> tuple[str, ...]:
    found, _ = outcome.decision("methods-easy")
    leaders = ("rejection-sampling", "max_contrast", "reinforce-ada")
    of_all = found.worths["grpo_ga"]
    reuse = found.worths["grpo-reuse"]
    return (
        *(worth_of(found.worths[arm]) for arm in leaders),
        *(worth_of(of_all), cost_of(of_all)),
        *(worth_of(reuse), cost_of(reuse)),
    )


def _methods_on_hard() -> tuple[str, ...]:
    found, _ = outcome.decision("methods-hard")
    of_all, reuse = (found.worths[arm] for arm in ("grpo_ga", "grpo-reuse"))
    return (
        worth_of(found.worths["rejection-sampling"]),
        _worth_in("controls-hard", "rejection-sampling"),
        *(worth_of(found.worths[arm]) for arm in ("cppo", "reinforce-ada", "pods")),
        *(worth_of(of_all), cost_of(of_all)),
        *(worth_of(reuse), cost_of(reuse)),
    )


def _of_wrong_answers_by_luck() -> str:
    """The points that wrong answers give max_contrast where right ones may be right by luck."""
    return f"{-_points_without_wrong_answers('parity-answer'):.1f}"


def _worth_by(study: str, measure: str) -> str:
    """The worth of a step of PODS by a share of its samples other than that of right ones."""
    curves = outcome.by_measure(study, measure)
    return worth_of(step_value(curves["grpo"], curves["pods"]))


_PAID_FORM = ("form-wrong", "form-every")


def _of_form() -> tuple[str, ...]:
    """Of PODS the worths by right answers, by the form, and by right answers in the form."""
    by_answers = [_worth_in(study, "pods") for study in ("form-none", *_PAID_FORM)]
    by_form = [_worth_by(study, "format_accuracy") for study in _PAID_FORM]
    (by_both,) = {_worth_by(study, "both_accuracy") for study in _PAID_FORM}
    return (*by_answers, *by_form, by_both)


def _rejection_beside_pods() -> tuple[str, ...]:
    """In how many comparisons a step of rejection sampling was worth more, of how many."""
    arms = ("rejection-sampling", "pods")
    pairs = [[ours.value(stage, arm) for arm in arms] for stage in ours.STAGES]
    both = [outcome.of_studies(arms) for arms in (outcome.REJECTION, outcome.PODS)]
    pairs += [[of_arm[study] for of_arm in both] for study in both[0] if study in both[1]]

    worths = [[value.worth for value in pair] for pair in pairs]
    more = [one for one, other in worths if one and other and one.value > other.value]
    return str(len(more)), str(len(pairs))


def _studies_of_pods() -> tuple[str, ...]:
    """In how many studies worth / cost lies below 1, of how many; the worths without one study."""
    values = outcome.of_studies(outcome.PODS)
    gains = [value.gain for value in values.values() if value.gain is not None]
    pays = [gain for gain in gains if gain.low is not None and gain.low > 1]
    assert not pays  # as the sentence says
    lower = [gain for gain in gains if gain.high is not None and gain.high < 1]

    del values["parity-answer"]  # which the sentence names
    worths = [float(worth_of(value)) for value in values.values()]
    return str(len(lower)), str(len(gains)), *_range(worths)


def _all_rollouts_by_the_clock() -> str:
    """The points of PODS above GRPO with all its rollouts, on easy by the clock."""
    return f"{100 * outcome.paired('clock-easy', 'pods', 'grpo_ga').mean:.1f}"


_ON_FRONT = (
    Quote(
        README,
        "a step of it was measured to be worth more than one of PODS in {} of {} comparisons",
        _rejection_beside_pods,
    ),
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
    Quote(
        EVIDENCE,
        "A step of 32 → 8 was worth {} and {} steps",
        lambda: (_worth_in("ratio-hard", "pods-4"), _worth_in("ratio-easy", "pods-4")),
    ),
    Quote(
        EVIDENCE,
        "A step of it was worth {} steps of GRPO, and cost {}. With the best eight answers of each"
        " of 4 prompts it was worth {}. max_contrast gained {} points",
        _controls,
    ),
    Quote(
        EVIDENCE,
        "was worth {}, {} and {} steps with no such part, with one for wrong answers, and with one"
        " for every answer. Where the form was paid for, a step was worth {} and {} by the form"
        " alone, and {} by answers that are right and in the form",
        _of_form,
    ),
    Quote(
        EVIDENCE,
        "In none of these studies is PODS shown to pay, and in {} of {} the interval of worth /"
        " cost lies below 1 (each for itself). Apart from parity-answer, whose interval says"
        " nothing, a step was worth {} to {} steps",
        _studies_of_pods,
    ),
    Quote(
        EVIDENCE,
        "GRPO-GA does not pay, and it is {} points behind PODS over the run",
        lambda: (_all_rollouts_by_the_clock(),),
    ),
    Quote(
        EVIDENCE,
        "from {} (64 → 16, 2 prompts) to {} (8 → 2, 16 prompts)",
        lambda: tuple(_worth_in("prompts-hard", arm) for arm in ("pods-m16", "pods-m2")),
    ),
    Quote(
        EVIDENCE,
        "On easy a step of rejection sampling was worth {} steps, of max_contrast {}, of"
        " reinforce-ada {}, and of GRPO-GA {}, which cost {}. GRPO that generates for four"
        " updates at once was worth {} and cost {}",
        _methods_in_steps,
    ),
    Quote(
        EVIDENCE,
        "On hard rejection sampling was worth {} (read before the first measurement, as the {}"
        " above; by rewards in training about 3), cppo {}, reinforce-ada {}, PODS {}, GRPO-GA {},"
        " which cost {}, and GRPO that generates for four updates {}, which cost {}",
        _methods_on_hard,
    ),
    Quote(
        EVIDENCE,
        "With the same rows max_contrast was {} points worse off over the run if its wrong answers",
        lambda: (_of_wrong_answers_by_luck(),),
    ),
    Quote(
        EVIDENCE,
        "A step of rejection sampling was worth {} there, and is not shown to be ahead of GRPO. If"
        " only answers with the right working were paid for, it was worth {}, and",
        lambda: tuple(
            _worth_in(study, "rejection-sampling") for study in ("parity-answer", "parity-working")
        ),
    ),
)
_IN_GUIDES = (
    Quote(
        METHODS,
        "worth {} to {} steps of GRPO with 8 rollouts",
        lambda: _of_all_stages("rejection-sampling", "worth"),
    ),
    Quote(
        METHODS,
        "in place of the best one of 32, a step was worth {} in place of {}",
        lambda: tuple(
            _worth_in("controls-hard", arm) for arm in ("rejection-few", "rejection-sampling")
        ),
    ),
    Quote(
        METHODS,
        "a step of 8 → 2 with 16 prompts was worth {} steps of GRPO, and one of 32 → 8 with 4"
        " prompts {}",
        lambda: tuple(_worth_in("prompts-hard", arm) for arm in ("pods-m2", "pods")),
    ),
    Quote(
        METHODS,
        "max_contrast was {} points ahead over the run of itself without them",
        lambda: (_of_wrong_answers_by_luck(),),
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
