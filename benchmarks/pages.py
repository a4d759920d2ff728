"""Every measured number of the README and the evidence page, from the raw files: one command.

    python -m benchmarks.pages            # writes the blocks anew: a minute and a half
    python -m benchmarks.pages --check    # fails where a page says other than the files

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. What stands outside is prose.
"""

import argparse
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.evidence.harness import equally_long, with_interval
from benchmarks.methods.page import best_grpo, sections
from benchmarks.published.kept_curves import read_kept
from benchmarks.series import METHODS, ROOT, Series, all_series, curves, is_grpo, read_series
from podslab.report.curves import ArmCurves
from podslab.report.statistics import Speedup, best_point, mean_over_seeds, speed_up
from podslab.report.summary import median
from podsrl.rollout_log.files import write_whole

RESULTS = ROOT / "results"
#: The pages that hold blocks. The README may have none.
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "evidence.md",
    RESULTS / "log.md",
    RESULTS / "audit.md",
    RESULTS / "published.md",
    RESULTS / "series.md",
)
BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: Methods by what they are, in the tables that compare families.
FAMILIES = {
    "PODS": ("pods", "pods-32"),
    "rows across prompts (`max_contrast`)": ("max_contrast", "max_contrast-group"),
    "right answers alone (rejection sampling)": ("best-",),
    "2-GRPO": ("grpo-2",),
}
#: The first words of the settings of each kind of model.
MODELS = {
    "small model": ("mixed", "rare", "few"),
    "SmolLM2-135M, CPU": ("answers", "pretrained", "char"),
    "SmolLM2-135M, GPU": ("gpu",),
}
EARLIER, LATER = "2026-11-26-88e3def", "2026-11-26-8e63ae7"

Lines = Iterator[str]


def published() -> Lines:
    """The authors' five settings, recomputed from their files."""
    yield "| setting | compared with | runs | PODS is as fast | median over runs | best accuracy |"
    yield "|---|---|---|---|---|---|"
    for title, arms in _published().items():
        if "pods" not in arms:
            continue
        reference, pods = next(iter(arms.values())), arms["pods"]
        found = speed_up(reference, pods)
        against = {"grpo": "GRPO", "grpo_ga": "GRPO-GA"}[reference.arm]
        best = " → ".join(f"{100 * _best(one):.1f} %" for one in (reference, pods))
        middle = median(found) if found.paired else "runs are not paired"
        runs = f"{len(reference.seeds)} and {len(pods.seeds)}"
        cells = (title, against, runs, f"**{with_interval(found)}**", middle, best)
        yield f"| {' | '.join(cells)} |"


def published_range() -> Lines:
    """The least and the most of the five, in a sentence."""
    found = [
        speed_up(next(iter(arms.values())), arms["pods"])
        for arms in _published().values()
        if "pods" in arms
    ]
    ratios = [one.ratio or 0.0 for one in found]
    faster = sum(ratio > 1 for ratio in ratios)
    above = sum((one.low or 0.0) > 1 for one in found)
    # "not reached" where a run does not get there; runs on eight GPUs are not paired
    medians = [float(median(one).rstrip("x")) for one in found if one.paired]
    yield (
        f"In the authors' own result files PODS is {min(ratios):.1f} to {max(ratios):.1f} times as"
        f" fast as GRPO or GRPO-GA, in {faster} of {len(ratios)} settings. The 95 % interval over"
        f" runs lies above 1 in {above} of them. Run by run the medians are {min(medians):.1f} to"
        f" {max(medians):.1f}, where runs are paired."
    )


def published_sizes() -> Lines:
    """The authors' ablations: sizes and rules."""
    yield "| what varies | choice | best accuracy | as fast as the first |"
    yield "|---|---|---|---|"
    for title, arms in _published().items():
        if "pods" in arms:
            continue
        reference = next(iter(arms.values()))
        for name, arm in arms.items():
            fast = "1" if arm is reference else with_interval(speed_up(reference, arm))
            what = title.removeprefix("GSM8K, ")
            yield f"| {what} | {name} | {100 * _best(arm):.1f} % | {fast} |"


def _published() -> dict[str, dict[str, ArmCurves]]:
    return read_kept(RESULTS / "published.json")


def _best(arm: ArmCurves) -> float:
    return float(mean_over_seeds(arm.accuracy)[best_point(arm)])


#: Arms of `benchmarks.evidence.rows` that are set beside each other, by what they are called.
_Arm = Callable[[Mapping[str, Any]], str]


def _small_model_settings() -> list[Mapping[str, Any]]:
    """The settings of the small model, except the one with another optimiser."""
    rows = json.loads((RESULTS / "rows.json").read_text(encoding="utf-8"))
    return [setting for name, setting in rows.items() if name != "sgd-16"]


def _ended_higher(settings: Sequence[Mapping[str, Any]], arm: _Arm, other: _Arm) -> int:
    """In how many settings an arm ended higher than another one."""

    def end(setting: Mapping[str, Any], name: str) -> float:
        return float(setting["arms"][name]["end"].split()[0])

    return sum(end(setting, arm(setting)) > end(setting, other(setting)) for setting in settings)


def own_sentence() -> Lines:
    """What the README says of our own runs."""
    settings = _small_model_settings()
    over_ga = _ended_higher(settings, lambda _: "pods", lambda _: "grpo_ga")
    over_grpo = _ended_higher(settings, lambda _: "pods", lambda one: one["reference"])
    yield (
        "On a model of 0.8 million parameters, in a minute or two on one core, PODS ended higher"
        f" than GRPO-GA in {over_ga} of {len(settings)} settings, and higher than the best GRPO in"
        f" {over_grpo} of {len(settings)}."
    )


def small_model() -> Lines:
    """PODS and rows across prompts beside GRPO and GRPO-GA, on the small model."""
    settings = _small_model_settings()
    yield "| small model, 5 seeds | settings | ended higher | reached that GRPO's level sooner |"
    yield "|---|---|---|---|"

    pairs: tuple[tuple[str, _Arm, _Arm], ...] = (
        ("PODS 64 → 16 beside GRPO-GA 64", lambda one: "pods", lambda one: "grpo_ga"),
        ("PODS 64 → 16 beside the best GRPO", lambda one: "pods", lambda one: one["reference"]),
        ("`max_contrast` beside the best GRPO", _across, lambda one: one["reference"]),
    )
    for what, arm, other in pairs:
        higher = _ended_higher(settings, arm, other)
        ratios = [one["arms"][arm(one)]["measured"]["ratio"] or 0.0 for one in settings]
        sooner = f"{sum(ratio > 1 for ratio in ratios)}"
        if arm is _across:
            sooner += f"; median {np.median(ratios):.2f}x, {min(ratios):.2f}x to {max(ratios):.2f}x"
        shown = "—" if "GRPO-GA" in what else sooner  # its level is not the best GRPO's
        yield f"| {what} | {len(settings)} | {higher} | {shown} |"


def _across(one: Mapping[str, Any]) -> str:
    return next(arm for arm in one["arms"] if arm.startswith("across"))


def families() -> Lines:
    """Each family beside the best other GRPO of the same series: how often it had more right."""
    yield "| beside the best GRPO of the same series | " + " | ".join(MODELS) + " |"
    yield "|---" * (1 + len(MODELS)) + "|"
    for family, names in FAMILIES.items():
        cells = []
        for settings in MODELS.values():
            found = list(_beside_grpo(names, settings))
            over, end = (sum(one[place] for one in found) for place in (0, 1))
            cells.append(f"{over} and {end} of {len(found)}" if found else "not run")
        yield f"| {family} | {' | '.join(cells)} |"


def _beside_grpo(names: tuple[str, ...], settings: tuple[str, ...]) -> Iterator[tuple[bool, bool]]:
    """Of each method and series: whether it had more right over the run, and at the end."""
    for series in all_series():
        if not series.setting.startswith(settings):
            continue
        for method, runs in series.by_method.items():
            if not method.startswith(names) or "prompt_selection" in runs[0]["arm"]:
                continue
            others = [
                key
                for key, of in series.by_method.items()
                if is_grpo(of[0]["arm"]) and not key.startswith(names)
            ]
            if others:
                best, highest = max(others, key=series.over_run), max(others, key=series.end)
                yield (
                    series.over_run(method) > series.over_run(best),
                    series.end(method) > series.end(highest),
                )


def rates() -> Lines:
    """How far learning rates lie apart on the middle set of the GPU, and how far methods do."""
    tried = json.loads((METHODS / "gpu-middle" / "tuning.json").read_text(encoding="utf-8"))
    first = {key: {float(rate): own[0] for rate, own in by.items()} for key, by in tried.items()}
    best = {key: max(by.values()) for key, by in first.items()}
    grpo = first["grpo-8"]
    low, high = min(grpo, key=lambda rate: grpo[rate]), max(grpo, key=lambda rate: grpo[rate])
    yield (
        f"On the middle set of the GPU, with one seed, GRPO of 8 had {100 * grpo[high]:.0f} % right"
        f" over the run at {high:g} and {100 * grpo[low]:.0f} % at {low:g}. At their best rates the"
        f" {len(best)} methods had {100 * min(best.values()):.0f} to"
        f" {100 * max(best.values()):.0f} %."
    )


def long_run() -> Lines:
    """The one long run of right answers alone, beside 2-GRPO."""
    series = _series("answers-long-greedy", "2026-11-26-c646925")
    said = {"best-4": "right answers alone, 4 → 1", "grpo-2": "2-GRPO"}
    seconds = np.linspace(0, 600, series.evaluations + 1)[1:]  # as they were asked for
    yield f"| likeliest answers right after | {' | '.join(f'{at:.0f} s' for at in seconds)} |"
    yield "|---" * (1 + len(seconds)) + "|"
    for method, name in said.items():
        right = _points(series, method, "accuracy")[1:]
        yield f"| {name} | {' | '.join(f'{100 * one:.1f} %' for one in right)} |"


def long_run_said() -> Lines:
    """The same in two sentences, from its second evaluation on."""
    series = _series("answers-long-greedy", "2026-11-26-c646925")
    times = np.linspace(0, 600, series.evaluations + 1)[2:]
    alone, pairs = (_points(series, key, "accuracy")[2:] for key in ("best-4", "grpo-2"))
    yield (
        f"In our one long run ({len(series.by_method['best-4'])} seeds, the middle set, likeliest"
        f" answers) right answers alone had {_listed(alone)} right after {_listed(times, '')} s."
        f" 2-GRPO had {_listed(pairs)}: it still rose."
    )


def _listed(values: Any, kind: str = "%") -> str:
    shown = [f"{100 * one:.1f} %" if kind == "%" else f"{one:.0f}" for one in values]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def _points(series: Series, method: str, what: str) -> Any:
    return np.mean([run["curve"][what] for run in series.by_method[method]], axis=0)


def headline() -> Lines:
    """What the front page said of the GPU until 2026-11-27, and what all runs say."""
    middle, easy, hard = (_both(f"gpu-{name}") for name in ("middle", "easy", "hard"))
    five = range(5)
    yield "| set | it said | what the runs that were left out say |"
    yield "|---|---|---|"
    said = _fast(middle[1], "grpo-8", middle[1], "best-4", five)
    other = _fast(middle[0], "grpo-8", middle[1], "best-4", five)
    within = _fast(middle[0], "grpo-8", middle[0], "best-4")
    yield (
        f"| middle | {with_interval(said)} | {with_interval(other)} beside the GRPO of the earlier"
        f" series, at half the rate; {within.ratio:.3f}x within that series |"
    )
    said = _fast(easy[1], "grpo-2-rows256", easy[1], "best-4", five)
    other = _fast(easy[1], "grpo-2-rows256", easy[1], "best-4")
    yield f"| easy | {with_interval(said)} | {with_interval(other)} with the sixth seed |"
    said = _fast(hard[0], "grpo-2-rows256", hard[1], "best-4")
    other = _fast(hard[0], "grpo-2-rows256", hard[0], "best-4")
    yield f"| hard | {with_interval(said)} | {with_interval(other)} within one series |"


def withdrawn() -> Lines:
    """The same in a sentence."""
    middle, easy, hard = (_both(f"gpu-{name}") for name in ("middle", "easy", "hard"))
    said = _fast(middle[1], "grpo-8", middle[1], "best-4", range(5))
    other = _fast(middle[0], "grpo-8", middle[1], "best-4", range(5))
    within = _fast(middle[0], "grpo-8", middle[0], "best-4").ratio or 0.0
    sixth = _fast(easy[1], "grpo-2-rows256", easy[1], "best-4").ratio or 0.0
    one_day = _fast(hard[0], "grpo-2-rows256", hard[0], "best-4").ratio or 0.0
    yield (
        f"The {said.ratio:.2f}x is {other.ratio:.2f}x ({other.low:.2f} to {other.high:.2f}) beside"
        f" the better GRPO that had been removed, and {within:.3f}x within that GRPO's own series."
        f" With the sixth seed the easy set reads {sixth:.2f}x, and within one series the hard set"
        f" reads {one_day:.2f}x."
    )


def _both(setting: str) -> tuple[Series, Series]:
    return _series(setting, EARLIER), _series(setting, LATER)


def _series(setting: str, name: str) -> Series:
    return read_series(METHODS / setting / name)


def _fast(
    of: Series, reference: str, series: Series, method: str, seeds: range | None = None
) -> Speedup:
    """A method over a reference, which may be of another series; seeds: those that count."""

    def chosen(one: Series, key: str) -> ArmCurves:
        runs = one.by_method[key]
        return curves([run for run in runs if seeds is None or run["seed"] in seeds])

    return speed_up(chosen(of, reference), chosen(series, method))


def audit() -> Lines:
    """What was found wrong with the comparison on a GPU, each point recomputed."""
    middle, easy, hard = (_both(f"gpu-{name}") for name in ("middle", "easy", "hard"))
    grpo = 100 * middle[0].end("grpo-8")
    later = {key: 100 * middle[1].end(key) for key in ("grpo-4", "grpo-8")}
    yield (
        f"1. **A better GRPO was taken out.** On the middle set GRPO of 8 at 1e-5 ends at"
        f" {grpo:.1f} % in the earlier series (2 seeds). The best GRPO of the later one ends at"
        f" {max(later.values()):.1f} % (6 seeds). On the easy set 2-GRPO with 64 rows at 5e-6 ended"
        f" at {100 * easy[0].end('grpo-2'):.1f} % (2 seeds), rejection sampling in the later series"
        f" at {100 * easy[1].end('best-4'):.1f} %."
    )
    with_it, without = (
        _fast(easy[1], "grpo-2-rows256", easy[1], "best-4", range(seeds)).ratio for seeds in (6, 5)
    )
    steps = {
        key: [run["curve"]["steps"][-1] for run in runs]
        for key, runs in easy[1].by_method.items()
        if len(runs) == 6
    }
    more = {key: of[5] / fmean(of[:5]) for key, of in steps.items()}
    emptier = ", ".join(f"`{key}` {ratio:.1f}" for key, ratio in more.items())
    yield (
        f"2. **A sixth seed was taken out.** On the easy set the ratio is {without:.2f}x without"
        f" it and {with_it:.2f}x with it. Steps of that seed over those of the others: {emptier}."
    )
    yield f"3. **Rates were not tuned alike.** {_tuned()}"
    lasted = " and ".join(f"{one.seconds:.0f}" for one in hard)
    yield (
        f"4. **Different budgets on the hard set**: the two series lasted {lasted} s. Within the"
        " earlier one rejection sampling is"
        f" {_fast(hard[0], 'grpo-2-rows256', hard[0], 'best-4').ratio:.2f}x as fast. Cut to equal"
        f" times, the later one at {_rate(hard[1])} is {_cut_hard(*hard)}; so its rate counts more"
        f" than its budget. In the earlier series it had {_rate(hard[0])}."
    )
    best, highest = best_grpo(easy[1]) or "", max(("grpo-8", "grpo-2-rows256"), key=easy[1].end)
    yield (
        "5. **The reference was chosen by the mean over the run, and shown by its end.** On the"
        f" easy set `{best}` has most over the run ({100 * easy[1].over_run(best):.1f} %) and ends"
        f" at {100 * easy[1].end(best):.1f} %; `{highest}` ends at"
        f" {100 * easy[1].end(highest):.1f} %."
    )


def _rate(series: Series) -> str:
    return f"{series.by_method['best-4'][0]['learning_rate']:g}"


def _cut_hard(earlier: Series, later: Series) -> str:
    """Rejection sampling of the later series, cut to the time of the earlier one's 2-GRPO."""
    reference, arm = (
        curves(one.by_method[key]) for one, key in ((earlier, "grpo-2-rows256"), (later, "best-4"))
    )
    return with_interval(speed_up(*equally_long(reference, arm)))


def _tuned() -> str:
    """How many variants of GRPO had how many rates, on each set of the GPU."""
    said = []
    for name in ("easy", "middle", "hard"):
        folder = METHODS / f"gpu-{name}"
        screened, tuned = (
            json.loads((folder / f"{what}.json").read_text(encoding="utf-8"))
            for what in ("screening", "tuning")
        )
        variants = [key for key in screened if key.startswith("grpo")]
        twice = [key for key in variants if key not in tuned]
        most = max(len(screened[key]) for key in twice)
        said.append(f"{name}: {len(twice)} of {len(variants)} variants of GRPO had {most} rates")
    return (
        "; ".join(said)
        + ", one seed and a third of the time. The reference of the hard set"
        + (
            " was not tuned there."
            if "grpo-2-rows256" not in json.loads((METHODS / "gpu-hard/tuning.json").read_text())
            else " was tuned there."
        )
    )


def questions() -> Lines:
    """How many different test questions the sets for the pretrained model have."""
    from benchmarks.answers import kinds_of
    from podslab.tasks.answers import Answers

    yield "| set | test questions | different ones | known to, at 50 % right |"
    yield "|---|---|---|---|"
    for name in ("easy", "middle", "hard"):
        asked = [row["question"] for row in Answers(kinds_of(name), test_size=256).load("test")]
        often = Counter(asked).values()
        spread = 0.5 * np.sqrt(sum(count**2 for count in often)) / len(asked)
        yield f"| {name} | {len(asked)} | {len(often)} | ±{100 * spread:.1f} points |"


def series() -> Lines:
    """Every series of runs: a line each."""
    left_out = tomllib.loads((METHODS / "left-out.toml").read_text(encoding="utf-8"))
    yield "| series | methods, with seeds | learning rates | machine, seconds of a run | left out |"
    yield "|---|---|---|---|---|"
    for one in all_series():
        folder = f"{one.setting}/{one.name}"
        gone = left_out.get(folder, {"runs": []})["runs"]
        methods = ", ".join(f"`{key}` {len(runs)}" for key, runs in one.by_method.items())
        rates = sorted({run["learning_rate"] for run in one.runs})
        first = one.runs[0]
        machine = str(first.get("gpu") or first["cpu"])
        said = "" if not gone else f"{len(gone)} of {len(one.runs)}"
        yield (
            f"| [{folder}](methods/{folder}) | {methods} | {', '.join(f'{r:g}' for r in rates)} |"
            f" {machine}, {one.seconds:.0f} s | {said} |"
        )


def left_out() -> Lines:
    """What the pages of 2026-11-27 left out, and why."""
    gone = tomllib.loads((METHODS / "left-out.toml").read_text(encoding="utf-8"))
    for folder, one in gone.items():
        methods = Counter(run.rpartition("-")[0] for run in one["runs"])
        named = ", ".join(f"`{method}` {seeds}" for method, seeds in methods.items())
        yield f"* **{folder}**: {named}. Why: {one['why']}."


def every_series() -> Lines:
    """The table of each series."""
    yield from sections()


BLOCKS: dict[str, Callable[[], Lines]] = {
    "published": published,
    "published-range": published_range,
    "published-sizes": published_sizes,
    "own-sentence": own_sentence,
    "small-model": small_model,
    "families": families,
    "rates": rates,
    "long-run": long_run,
    "long-run-said": long_run_said,
    "headline": headline,
    "withdrawn": withdrawn,
    "audit": audit,
    "questions": questions,
    "series": series,
    "left-out": left_out,
    "every-series": every_series,
}


def block(name: str) -> str:
    """The Markdown of a block.

    Raises:
        KeyError: there is no block of this name.
    """
    return "\n".join(BLOCKS[name]()) + "\n"


def rewritten(text: str) -> str:
    """A page with its blocks computed anew."""
    return BLOCK.sub(lambda match: match[1] + block(match[2]) + match[3], text)


def main(argv: list[str] | None = None) -> int:
    """Write the blocks of all pages, or say where one is stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one is stale")
    args = parser.parse_args(argv)
    stale = 0
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        names = [match[2] for match in BLOCK.finditer(before)]
        same = (after := rewritten(before)) == before
        stale += not same
        print(f"{page.relative_to(ROOT)}: {', '.join(names) or 'no block'}: {_state(same, args)}")
        if not same and not args.check:
            write_whole(page, after.encode())
    return 1 if stale and args.check else 0


def _state(same: bool, args: argparse.Namespace) -> str:
    return "as the files say" if same else "stale" if args.check else "written anew"


if __name__ == "__main__":
    sys.exit(main())
