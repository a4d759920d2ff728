"""One self-contained page: figures, tables and configs.

The page asks for nothing over the network and runs no script: its content security policy names
its style sheet by its hash, and nothing else.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podslab.report.figures import describe
from podslab.report.load_runs import Comparison
from podslab.report.summary import MEASURES, ArmSummary, heading, headline, table_rows, verdicts

_HERE = Path(__file__).parent


def render_page(
    title: str, sections: Sequence[Mapping[str, Any]], rollouts: str | None = None
) -> str:
    """The page, as HTML, with the `section` of each comparison.

    `rollouts` is the folder of runs that `pods inspect` can show, if there is one.

    Everything that comes from runs is escaped.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    template = environment.get_template("page.html.j2")
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return template.render(
        title=title,
        sections=sections,
        rollouts=rollouts,
        style=Markup(style),
        policy=(
            f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none';"
            " form-action 'none'"
        ),
    )


def section(
    comparison: Comparison, summaries: Sequence[ArmSummary], figures: Mapping[str, bytes]
) -> dict[str, Any]:
    """A comparison as the page shows it; figures are SVG, by name."""
    settings = _settings_side_by_side(comparison)
    different = [(key, values) for key, values in settings if len(set(values)) > 1]
    same = [(key, values[0]) for key, values in settings if len(set(values)) == 1]
    drawn = [
        (describe(name, comparison), base64.b64encode(svg).decode())
        for name, svg in figures.items()
    ]

    return {
        "heading": heading(comparison),
        "measure": MEASURES[comparison.measure],
        "headline": headline(comparison, summaries),
        "details": comparison.details,
        "modelled": None if comparison.clock is None else str(comparison.clock),
        "notes": comparison.notes,
        "verdicts": verdicts(comparison, summaries),
        "figures": drawn,
        "arms": [summary.arm for summary in summaries],
        "table": table_rows(comparison, summaries),
        "different": different,
        "same": same,
        "environments": _environments(comparison),
    }


def _settings_side_by_side(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Every setting that an arm has, with its value in each arm."""
    configs = [arm.config for arm in comparison.arms]
    keys = dict.fromkeys(key for config in configs for key in config)
    return [(key, [_text(config.get(key)) for config in configs]) for key in keys]


def _environments(comparison: Comparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """The machines of the runs, with the runs' names; once for all where they agree."""
    runs_by_facts: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in comparison.runs:
        name = f"{run.arm} seed {run.seed}"
        at_start, *resumed = run.environments
        runs_by_facts.setdefault(_facts(at_start), []).append(name)
        for environment in resumed:
            runs_by_facts.setdefault(_facts(environment), []).append(f"{name} (resumed)")
    return [(", ".join(names), list(facts)) for facts, names in runs_by_facts.items() if facts]


def _facts(environment: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """An environment as names and texts, without what differs from run to run on one machine."""
    facts = dict(environment)
    facts.pop("started", None)
    facts.pop("command", None)
    facts |= facts.pop("versions", None) or {}
    return tuple((name, _text(value)) for name, value in facts.items())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(item) for item in value)
    return "—" if value is None else str(value)
