"""Numbers and tables of the pages, from results/*.json alone.

    python docs/site/included.py    # writes them into README.md and the pages

A number stands before its name, in a comment that no reader sees: `1.32<!--rows.median-->`. A table
stands between `<!--table:NAME-->` and `<!--end-->`. A test fails where this would change a page.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    RESULTS / "language-model.md",
)
NUMBER = re.compile(r"\d[\d.,]*( %|x)?<!--([\w.-]+)-->")
TABLE = re.compile(r"(<!--table:([\w-]+)-->\n).*?(?=<!--end-->)", re.DOTALL)
#: The settings of the table of methods.
COMPARED = ("answers-middle", "answers-greedy", "mixed-16", "rare-16")
SETS = ("answers-easy", "answers-middle", "answers-hard")
ON_GPU = ("gpu-easy", "gpu-middle", "gpu-hard")


def read(name: str) -> dict[str, Any]:
    """A file of results."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


@cache
def facts() -> dict[str, str]:
    """Every number by its name, as it is written."""
    return dict([*_rows(), *_methods(), *_by_cost(), *_first_script()])


def _times(prefix: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A speed-up with the ends of its interval; nothing of one that was not reached."""
    if not found["ratio"]:
        return
    yield f"{prefix}.fast", f"{found['ratio']:.2f}"
    if found["low"] is not None:  # one seed has no interval
        yield f"{prefix}.low", f"{found['low']:.2f}"
        yield f"{prefix}.high", f"{found['high']:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _rows() -> Iterator[tuple[str, str]]:
    """Rows across the batch, over the best GRPO: the settings by AdamW."""
    rows = {name: one for name, one in read("rows").items() if name != "sgd-16"}
    fast, paper = [], 0
    for name, one in rows.items():
        arm = next(arm for arm in one["arms"] if arm.startswith("across"))
        found, before = one["arms"][arm], one["arms"][one["reference"]]
        fast.append(found["measured"])
        reached = one["arms"]["pods"]["measured"]["ratio"]
        paper += reached is None
        yield from _times(f"rows.{name}", found["measured"])
        yield from _times(f"rows.{name}.pods", one["arms"]["pods"]["measured"])
        yield f"rows.{name}.end", f"{float(found['end'].split()[0]):.0f}"
        yield f"rows.{name}.grpo.end", f"{float(before['end'].split()[0]):.0f}"
    ratios = [found["ratio"] for found in fast]
    yield "rows.settings", str(len(ratios))
    yield "rows.median", f"{median(ratios):.2f}"
    yield "rows.least", f"{min(ratios):.2f}"
    yield "rows.most", f"{max(ratios):.2f}"
    yield "rows.paper.not-reached", str(paper)
    at_costs = [_across(one)["at_costs"]["ratio"] for one in rows.values()]
    yield "rows.costs.median", f"{median(at_costs):.2f}"


def _across(one: Mapping[str, Any]) -> Any:
    return next(found for arm, found in one["arms"].items() if arm.startswith("across"))


def _methods() -> Iterator[tuple[str, str]]:
    for name, one in read("methods").items():
        yield f"methods.{name}.start", _percent(one["start"])
        for key, found in one["methods"].items():
            prefix = f"methods.{name}.{key}"
            if found["fast"]:
                yield from _times(prefix, found["fast"])
            if found["first_over_it"]:
                yield from _times(f"{prefix}.first", found["first_over_it"])
            if found["at_costs"] and found["at_costs"]["ratio"]:
                yield f"{prefix}.costs", f"{found['at_costs']['ratio']:.2f}"
            yield f"{prefix}.right", _percent(fmean(found["over_run"]))
            yield f"{prefix}.end", _percent(found["end"])
            yield f"{prefix}.end.least", _percent(min(found["ends"]))
            yield f"{prefix}.end.most", _percent(max(found["ends"]))
            yield f"{prefix}.seeds", str(found["seeds"])
            yield f"{prefix}.steps", f"{found['steps']:.0f}"
            for kind, shares in found.get("kinds", {}).items():
                for when, share in shares.items():
                    yield f"{prefix}.{kind}.{when}", _percent(share)


def _by_cost() -> Iterator[tuple[str, str]]:
    """By g/u, over the best GRPO that spares passes ("at") and over TRL's ("over-trls-at")."""
    for name, one in read("methods").items():
        for of, said in (("by_cost", "at"), ("by_cost_over_trls", "over-trls-at")):
            for key, times in one.get(of, {}).items():
                for ratio, value in times.items():
                    if value:
                        yield f"methods.{name}.{key}.{said}.{ratio}", f"{value:.2f}"


def _first_script() -> Iterator[tuple[str, str]]:
    rewards = read("film")["rewards"]
    yield "first.before", _percent(rewards[0])
    yield "first.after", _percent(rewards[-1])


def table(name: str) -> str:
    """A table in Markdown."""
    tables = {"methods": _methods_table, "lm": _language_model_table}
    tables |= {"sets": _sets_table, "answers": _answers_table}
    tables |= {"rates": partial(_rates_table, "answers-middle")}
    tables |= {"rates-easy": partial(_rates_table, "answers-easy-greedy")}
    tables |= {f"rates-{name}": partial(_rates_table, name) for name in (*ON_GPU, "char-count")}
    tables |= {"variances": _variances_table, "screening-gpu": _screening_table}
    return "\n".join(tables[name]()) + "\n"


def _methods_table() -> Iterator[str]:
    """Right over the run, and times as fast, of each method in each setting."""
    settings = {name: one for name, one in read("methods").items() if name in COMPARED}
    names: dict[str, str] = {}
    for one in settings.values():
        names |= {key: found["name"] for key, found in one["methods"].items()}
    heads = [
        f"{one['what']}, {one['rows']} rows, {next(iter(one['methods'].values()))['seeds']} seeds"
        for one in settings.values()
    ]
    yield f"| method | {' | '.join(heads)} |"
    yield "|---" * (1 + len(heads)) + "|"
    for key, name in names.items():
        found = [one["methods"].get(key) for one in settings.values()]
        yield f"| {name} | {' | '.join('' if one is None else _shown(one) for one in found)} |"


def _shown(found: Mapping[str, Any]) -> str:
    right, fast = f"{100 * fmean(found['over_run']):.1f} %", found["fast"]
    if fast is None:
        return f"{right} (1)"
    if not fast["learned"]:  # the reference did not, so there is nothing to reach
        return right
    return f"{right} ({fast['ratio']:.2f}x)" if fast["ratio"] else f"{right} (not reached)"


def _language_model_table() -> Iterator[str]:
    """What each arm of the trial shows at its end, mean of the seeds, at each learning rate."""
    yield "| what | rate | right at the end, each seed | tokens | cut off | no gradient | wrong |"
    yield "|---|---|---|---|---|---|---|"
    for found in read("language-model")["arms"].values():
        ends = ", ".join(map(_percent, found["last_right"]))
        tokens, rows = fmean(found["last_tokens"]), fmean(found["last_filler_rows"])
        shares = [fmean(found["last_clipped"]), rows / 16, found["wrong_share"]]
        cells = [f"{_percent(fmean(found['last_right']))} % ({ends})", f"{tokens:.0f}"]
        cells += ["" if share is None else f"{_percent(share)} %" for share in shares]
        yield f"| {found['name']} | {found['rate']:g} | {' | '.join(cells)} |"


def _sets_table() -> Iterator[str]:
    """Each method on the sets of questions for the pretrained model."""
    every = read("methods")
    sets = {name: every[name] for name in SETS if name in every}
    names = {key: own["name"] for one in sets.values() for key, own in one["methods"].items()}
    yield f"| right at the end (each seed) | {' | '.join(one['what'] for one in sets.values())} |"
    yield "|---" * (1 + len(sets)) + "|"
    for key, name in names.items():
        found = [one["methods"].get(key) for one in sets.values()]
        yield f"| {name} | {' | '.join('' if one is None else _ends(one) for one in found)} |"


def _rates_table(setting: str) -> Iterator[str]:
    """What was tried on a set of questions: right over the run, by learning rate."""
    file = RESULTS / f"methods/{setting}/tuning.json"
    tried = json.loads(file.read_text(encoding="utf-8"))
    rates = sorted({rate for own in tried.values() for rate in own}, key=float)
    yield f"| method | {' | '.join(rates)} |"
    yield "|---" * (1 + len(rates)) + "|"
    first = {key: {rate: own[rate][0] for rate in own} for key, own in tried.items()}
    for key in sorted(tried, key=lambda key: -max(first[key].values())):
        cells = [", ".join(_percent(right) for right in tried[key].get(rate, [])) for rate in rates]
        yield f"| `{key}` | {' | '.join(cells)} |"


def _screening_table() -> Iterator[str]:
    """Right over the run at the better of two rates, of every method that was screened on a GPU."""
    found = {name: read(f"methods/{name}/screening") for name in ON_GPU}
    yield f"| method | {' | '.join(name.removeprefix('gpu-') for name in ON_GPU)} |"
    yield "|---" * (1 + len(ON_GPU)) + "|"
    best = {
        name: {key: max((own[rate][0], rate) for rate in own) for key, own in tried.items()}
        for name, tried in found.items()
    }
    in_all = set.intersection(*(set(of) for of in found.values()))
    for key in sorted(in_all, key=lambda key: -sum(own[key][0] for own in best.values())):
        cells = [f"{_percent(own[key][0])} ({float(own[key][1]) * 1e6:g})" for own in best.values()]
        yield f"| `{key}` | {' | '.join(cells)} |"


def _variances_table() -> Iterator[str]:
    """What gradients of prompts share, on each set: before training, midway and at the end."""
    yield "| set | steps before | two halves of a prompt | two prompts | τ² | σ² |"
    yield "|---|---|---|---|---|---|"
    for name in SETS:
        found = read(f"variances-{name}")
        for steps, one in ((0, found), (12, found["after_12"]), (24, found["after_24"])):
            cosines = [f"{one['cosine_of_halves']:.2f}", f"{one['cosine_of_prompts']:.2f}"]
            ends = [
                f"{mean:.0f} ({low:.0f} to {high:.0f})"
                for mean, low, high in (one["between"], one["within"])
            ]
            yield f"| {name.removeprefix('answers-')} | {steps} | {' | '.join([*cosines, *ends])} |"


def _ends(found: Mapping[str, Any]) -> str:
    each = ", ".join(map(_percent, found["ends"]))
    return f"{_percent(found['end'])} % ({each})"


def _answers_table() -> Iterator[str]:
    """The pass rates of the kinds of questions; those below 2 % in one line, and those left out."""
    kinds = read("answers")["kinds"]
    yield "| kind | right at first |"
    yield "|---|---|"
    for left_out, said in ((False, ""), (True, ", left out of the sets")):
        own = {kind: one for kind, one in kinds.items() if ("left_out" in one) == left_out}
        measured = {kind: one["right"] for kind, one in own.items() if "right" in one}
        for kind in sorted(measured, key=lambda kind: -measured[kind]):
            if measured[kind] >= 0.02:
                yield f"| `{kind}`{said} | {_percent(measured[kind])} % |"
        rare = [f"`{kind}`" for kind, right in measured.items() if right < 0.02]
        if rare:
            yield f"| {', '.join(rare)}{said} | below 2 % |"
        if unknown := [f"`{kind}`" for kind in own if kind not in measured]:
            yield f"| {', '.join(unknown)}{said} | not measured |"


def rewritten(text: str) -> str:
    """A page with the numbers and the tables of today's results."""

    def number(match: re.Match[str]) -> str:
        return f"{facts()[match[2]]}{match[1] or ''}<!--{match[2]}-->"

    return TABLE.sub(lambda match: match[1] + table(match[2]), NUMBER.sub(number, text))


if __name__ == "__main__":
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        if (after := rewritten(before)) != before:
            page.write_text(after, encoding="utf-8")
            print(f"new numbers in {page.relative_to(ROOT)}")
