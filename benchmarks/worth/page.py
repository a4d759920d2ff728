"""The tables of what a step is worth and costs. The sentences around them are written by hand."""

from collections.abc import Sequence
from itertools import chain

from benchmarks.frozen.tables import points
from benchmarks.markdown import table
from benchmarks.studies import outcome
from benchmarks.worth import authors, ours
from benchmarks.worth.costs import SIZES, machines
from podslab.statistics.differences import holm
from podslab.statistics.worth import Ratio, StepValue

_PAYS = {True: "yes", False: "no", None: "open"}


def of_authors() -> list[str]:
    """Worth and cost in all settings of the authors, by right answers where that is known."""
    rows = []
    for setting in authors.SETTINGS:
        found = authors.value(setting)
        rows.append(
            [
                setting.name,
                f"{setting.n} → {setting.m}",
                setting.beside,
                "right" if setting.on_one_gpu else "right in its form",
                *_cells(found),
            ]
        )
    heads = ["setting", "n → m", "beside", "counted", "worth", "cost", "worth / cost", "pays"]
    return table(heads, rows)


def sizes_of_authors() -> list[str]:
    """Worth and cost for each n and m that the authors ran on GSM8K with Qwen."""
    rows = []
    for setting in authors.SETTINGS:
        if setting.name == "GSM8K":
            rows.append([f"{setting.n} → {setting.m}", *_cells(authors.value(setting))])
    return table(["n → m", "worth", "cost", "worth / cost", "pays"], rows)


def form_and_answers() -> list[str]:
    """The worth by right answers, by the form, and by both, on one GPU."""
    rows = []
    for setting in authors.SETTINGS:
        if setting.on_one_gpu:
            measures = (authors.RIGHT, authors.FORM, authors.BOTH)
            worths = [_worth(authors.value(setting, measure)) for measure in measures]
            rows.append([setting.name, f"{setting.n} → {setting.m}", *worths])
    return table(["setting", "n → m", "right answers", "form", "right and in form"], rows)


def sensitivities() -> list[str]:
    """The worth by area, over half a run, and by the level, on one GPU."""
    rows = []
    for setting in authors.SETTINGS:
        if setting.on_one_gpu:
            level = authors.by_level(setting)
            rows.append(
                [
                    setting.name,
                    f"{setting.n} → {setting.m}",
                    _worth(authors.value(setting)),
                    _worth(authors.value(setting, until=0.5)),
                    "not reached" if level is None else f"{level:.2f}",
                ]
            )
    return table(["setting", "n → m", "by area", "over half the steps", "to the level"], rows)


def by_machine() -> list[str]:
    """The cost of each size on each machine, and the authors' worth over it."""
    rows = []
    for machine in machines():
        if not machine.trains_3b:
            continue
        cells = []
        for size in SIZES[1:]:
            if size not in machine.cost:
                cells.append("")
                continue
            about = "" if size in machine.measured else "about "
            cells.append(f"{about}{machine.cost[size]:.2f}: {machine.gain(size):.2f}")
        rows.append([machine.name, *cells, f"{16 * machine.best} of {16 * max(machine.cost)}"])
    heads = ["machine", *(f"{16 * size} → 16" for size in SIZES[1:]), "best n, of up to"]
    return table(heads, rows)


def of_ours() -> list[str]:
    """Worth and cost of a step of PODS in all stages of our comparison."""
    rows = []
    for stage in ours.STAGES:
        seeds = len(ours.results(stage, "pods"))
        rows.append(
            [
                stage.name,
                stage.set,
                str(seeds),
                f"{100 * ours.right_at_start(stage):.0f} %",
                *_cells(ours.value(stage, "pods")),
                _worth(ours.value(stage, "pods", until=0.5)),
                _worth(ours.value(stage, "pods", measure="pass_1")) if stage in ours.LONG else "",
            ]
        )
    heads = ["runs", "set", "seeds", "samples right at first", "worth", "cost", "worth / cost"]
    heads += ["pays", "worth over half the steps", "worth by pass@1"]
    return table(heads, rows)


def of_ours_in_short() -> list[str]:
    """Worth and cost of a step of PODS in all stages of our comparison, without the rest."""
    rows = []
    for stage in ours.STAGES:
        at_start = f"{100 * ours.right_at_start(stage):.0f} %"
        worth, cost, gain, _ = _cells(ours.value(stage, "pods"))
        rows.append([stage.name, stage.set, at_start, worth, cost, gain])
    heads = ["runs", "set", "samples right at first", "worth", "cost", "worth / cost"]
    return table(heads, rows)


def front() -> list[str]:
    """The table of the README: three settings of the authors, and ours as ranges over sets."""
    (gsm8k,) = [setting for setting in authors.SIZES if setting.n == 64]
    named = {
        "authors: GSM8K, Qwen2.5-3B, one L40S": gsm8k,
        "authors: MATH, Qwen2.5-3B, one L40S": authors.MATH,
        "authors: GSM8K, Llama-3.2-3B, one L40S": authors.LLAMA,
    }
    rows = []
    for name, setting in named.items():
        found = authors.value(setting)
        ratios = (found.worth, found.cost, found.gain)
        rows.append([name, f"{setting.n} → {setting.m}", *map(str, ratios)])

    sampled = outcome.of_pods(32, 8)
    of_ours = {
        "ours: likeliest answers, four sets": [ours.value(stage, "pods") for stage in ours.SHORT],
        f"ours: sampled answers, {len(sampled)} studies": [*chain.from_iterable(sampled.values())],
    }
    for name, values in of_ours.items():
        ranges = [
            _range([value.worth for value in values]),
            _range([value.cost for value in values]),
            _range([value.gain for value in values]),
        ]
        rows.append([name, "32 → 8", *ranges])
    return table(["runs", "n → m", "worth", "cost", "worth / cost"], rows)


def _range(ratios: Sequence[Ratio | None]) -> str:
    """The least and the greatest of some ratios."""
    values = [ratio.value for ratio in ratios if ratio is not None]
    return f"{min(values):.2f} to {max(values):.2f}"


def beside_large_batches() -> list[str]:
    """Arms beside GRPO whose generation serves four updates, both goes on middle pooled."""
    rows = []
    beside = "grpo-8x4"
    for stage in ours.BATCH:
        arms = [ours.REFERENCE, *(arm for arm in ours.arms(stage) if arm != beside)]
        found = {arm: ours.difference_from(stage, arm, beside) for arm in arms}
        adjusted = holm([one.p for one in found.values()])
        for (arm, one), p in zip(found.items(), adjusted, strict=True):
            rows.append(
                [
                    stage.set,
                    str(len(ours.results(stage, arm))),
                    arm,
                    points(one),
                    "< 0.001" if p < 0.001 else f"{p:.3f}",
                    str(ours.value(stage, arm, beside).gain),
                ]
            )
    heads = ["set", "seeds", "arm", "points over the run", "p, by Holm", "worth / cost"]
    return table(heads, rows)


def beside_large_batches_in_short() -> list[str]:
    """The same in points and as a quotient, with a row for each arm."""
    beside = "grpo-8x4"
    rows = []
    for arm in (ours.REFERENCE, *(arm for arm in ours.arms(ours.BATCH[0]) if arm != beside)):
        cells = []
        for stage in ours.BATCH:
            found = ours.difference_from(stage, arm, beside)
            cells += [f"{100 * found.mean:+.1f}", str(ours.value(stage, arm, beside).gain)]
        rows.append([arm, *cells])
    heads = [f"{stage.set}: {what}" for stage in ours.BATCH for what in ("points", "worth / cost")]
    return table(["arm", *heads], rows)


def of_our_arms() -> list[str]:
    """Worth, cost and their quotient of every arm beside GRPO with 8 rollouts."""
    rows = []
    for arm in ours.arms(ours.SHORT[0]):
        cells = []
        for stage in ours.SHORT:
            found = ours.value(stage, arm)
            assert found.worth is not None
            assert found.cost is not None
            assert found.gain is not None
            word = {True: " **pays**", False: " no", None: ""}[found.pays]
            cells.append(f"{found.worth.value:.2f} / {found.cost.value:.2f} = {found.gain}{word}")
        rows.append([arm, *cells])
    return table(["arm", *(stage.set for stage in ours.SHORT)], rows)


def of_our_long_arms() -> list[str]:
    """The same of the longer runs, and of those beside GRPO in large batches."""
    rows = []
    for stage in (*ours.LONG, *ours.BATCH):
        for arm in ours.arms(stage):
            seeds = len(ours.results(stage, arm))
            rows.append([stage.name, stage.set, str(seeds), arm, *_cells(ours.value(stage, arm))])
    heads = ["runs", "set", "seeds", "arm", "worth", "cost", "worth / cost", "pays"]
    return table(heads, rows)


def at_small_price() -> list[str]:
    """Where a rollout costs a tenth of a pass: the quotient, with and without spared passes."""
    rows = []
    for stage in ours.SHORT:
        cells = []
        for beside in (ours.REFERENCE, "grpo-16"):
            worth = ours.value(stage, "pods", beside).worth
            for is_spared in (True, False):
                cost = ours.cost_at_price(stage, "pods", beside, 0.1, is_spared=is_spared)
                cells.append(_scaled(worth, cost))
        rows.append([stage.set, *cells])
    heads = ["set", "beside grpo-8, both spared", "neither", "beside grpo-16, both spared"]
    return table([*heads, "neither"], rows)


def _scaled(worth: Ratio | None, cost: float) -> str:
    """The worth over a cost that is given."""
    if worth is None or worth.low is None or worth.high is None:
        return "not defined"
    return str(Ratio(worth.value / cost, worth.low / cost, worth.high / cost))


def _cells(found: StepValue) -> list[str]:
    """Worth, cost, their quotient, and whether the method pays."""
    gain = "" if found.gain is None else f"**{found.gain}**"
    return [_worth(found), str(found.cost or "not known"), gain, _PAYS[found.pays]]


def _worth(found: StepValue) -> str:
    return found.undefined if found.worth is None else str(found.worth)
