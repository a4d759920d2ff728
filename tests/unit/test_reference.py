"""docs/reference.md leaves out nothing that a user can set or see."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

from podsrl.rollout_log.run_folder import OPTIONAL_COLUMNS, ROLLOUT_COLUMNS

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")


def rows_of(heading, *, end="\n#"):
    """The cells of the table under a heading of docs/reference.md."""
    text = REFERENCE.split(f"{heading}\n", 1)[1].split(end, 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def kinds():
    """The three kinds of settings of a run, by name."""
    pytest.importorskip("trl")
    from podslab.training.spec import Spec

    return get_type_hints(Spec)


def test_the_reference_has_every_field_of_a_run_with_its_default(kinds):
    from trl import GRPOConfig

    inherited = {field.name for field in fields(GRPOConfig)} - {"num_generations"}
    for heading, kind in (("### PODSConfig", "training"), ("### The run", "run")):
        defaults = {f.name: str(f.default) for f in fields(kinds[kind])}
        told = {name.strip("`"): default.strip("`") for name, default, _ in rows_of(heading)}
        own = {name: value for name, value in defaults.items() if name not in inherited}
        assert told == own


def metrics_in(host):
    """The names under pods/ that a host's code writes, and what it takes from podsrl.drives."""
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src/podsrl" / host).glob("*.py"))
    if "podsrl.drives import" in source:
        source += (ROOT / "src/podsrl/drives.py").read_text("utf-8")
    names = set(re.findall(r'"(pods/[a-z_]+)(?:/\{name\})?"', source))
    if 'f"pods/seconds_{phase}"' in source:
        names |= {f"pods/seconds_{phase}" for phase in ("generate", "score", "select", "update")}
    return names


@pytest.mark.parametrize(("host", "column"), [("trl", 3), ("verl", 4)])
def test_the_reference_has_every_metric_of_a_host(host, column):
    told = {row[0].strip("`") for row in rows_of("## Metrics") if row[column] == "yes"}
    ours = {name.partition("/<")[0] for name in told if name.startswith("pods/")}
    assert ours == metrics_in(host)


def test_the_reference_has_every_column_of_the_rollout_files():
    told = [row[0].strip("`") for row in rows_of("### Columns of the rollout files")]
    fixed = [name for name in told if not name.startswith("rewards/")]
    assert fixed == [*ROLLOUT_COLUMNS, *OPTIONAL_COLUMNS]
