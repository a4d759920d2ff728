"""In which fields the arms of a comparison differ, from each other and from their methods."""

from collections.abc import Mapping
from typing import Any

from podslab.columns import aligned
from podsrl.methods import CUSTOM, METHODS, known_name, method_of
from podsrl.selection import Selection

#: What every run has for itself.
_OF_THE_RUN = frozenset({"arm", "seed", "data_seed", "output_dir", "logging_dir", "run_name"})


def table_of_differences(arms: Mapping[str, Mapping[str, Any]]) -> str:
    """A table with a line for each field in which arms differ, and a column for each arm.

    Args:
        arms: All fields of each arm, by its name; a field that an arm lacks is shown as "-".
    """
    rows = [("field", *arms)]
    for field in _all_fields(arms):
        values = [_shown(settings, field) for settings in arms.values()]
        if len(set(values)) > 1:
            rows.append((field, *values))

    return aligned(rows)


def departures(settings: Mapping[str, Any], selection: Selection) -> list[str]:
    """List where an arm departs from the definition of its method, each in a few words.

    Args:
        settings: All fields of the arm.
        selection: How it selects.

    >>> departures({"method": "pods", "skip_zero_advantage": True}, Selection(32, 8, seed=0))
    []
    >>> right_alone = Selection(4, 1, rule="max_reward", baseline="group", seed=0)
    >>> departures({"method": "rejection_sampling", "skip_zero_advantage": True}, right_alone)
    []
    >>> from dataclasses import replace
    >>> group = replace(Selection(32, 8, seed=0), baseline="group")
    >>> departures({"method": "pods", "skip_zero_advantage": False}, group)
    ["advantage_baseline is 'group' ('kept' in pods)", 'skip_zero_advantage is off (on in pods)']
    """
    name = settings.get("method") or method_of(selection)
    # Settings that are no method's stand beside the paper's.
    name = "pods" if name == CUSTOM else known_name(name)
    method = METHODS[name]
    usual = method.selection
    found = []

    sizes = (selection.num_rollouts, selection.num_kept)
    if _ratio(sizes) != method.rollouts_per_kept:
        found.append(
            f"{sizes[0]} -> {sizes[1]} rollouts"
            f" ({usual.num_rollouts} -> {usual.num_kept} in {name})"
        )
    if selection.rule != usual.rule and not method.keeps_all:
        found.append(f"downsampling_rule is {selection.rule!r} ({usual.rule!r} in {name})")
    if selection.baseline != usual.baseline:
        found.append(f"advantage_baseline is {selection.baseline!r} ({usual.baseline!r} in {name})")

    defines = method.spares_passes(drops=not method.keeps_all)
    spares = settings.get("skip_zero_advantage")  # None: as the method has it
    if spares is not None and spares != defines:
        is_so, defined = ("on", "off") if spares else ("off", "on")
        found.append(f"skip_zero_advantage is {is_so} ({defined} in {name})")
    return found


def _all_fields(arms: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The fields of all arms, in the order of the first arm's."""
    fields = dict.fromkeys(field for settings in arms.values() for field in settings)
    return [field for field in fields if field not in _OF_THE_RUN]


def _shown(settings: Mapping[str, Any], field: str) -> str:
    return str(settings[field]) if field in settings else "-"


def _ratio(sizes: tuple[int, int]) -> float:
    return sizes[0] / sizes[1]
