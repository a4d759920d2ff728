"""Imports inside the laboratory go down only."""

from pathlib import Path

import podslab
from support.layers import imports_that_go_up, places

PACKAGE = Path(podslab.__file__).parent
#: The highest first; those of one layer know nothing of each other.
LAYERS = [
    ["cli"],
    ["own_script"],
    ["recommend"],
    ["report"],
    ["comparison"],
    ["training"],
    ["models"],
    ["statistics"],
    ["evaluation"],
    ["tasks"],
    ["engine"],
    ["checks", "columns", "durations"],
]


def test_every_module_has_its_layer():
    assert places(PACKAGE) <= {name for layer in LAYERS for name in layer}


def test_an_import_goes_down():
    assert imports_that_go_up(PACKAGE, LAYERS) == []
