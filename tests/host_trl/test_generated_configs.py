"""Generated settings end in a selection, or in one line that says what is wrong."""

import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from podsrl.advantages import group_advantages
from podsrl.errors import PodsError
from podsrl.rules import RULES
from podsrl.trl import PODSConfig

RULES_GIVEN = [*RULES, "variance_top_p(p=0.5)", "random"]
#: Values that are right for a field, but maybe not together with the others.
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "num_generations": st.integers(1, 8),
    "num_rollouts": st.integers(2, 20),
    "per_device_train_batch_size": st.sampled_from([4, 8, 12, 24]),
    "gradient_accumulation_steps": st.sampled_from([1, 2, 5]),
    "downsampling_rule": st.sampled_from(RULES_GIVEN),
    "advantage_baseline": st.sampled_from(["kept", "group"]),
    "selection_weights": st.sampled_from([None, [1.0], [1, 0, -2.5]]),
    "skip_zero_advantage": st.booleans(),
    "beta": st.sampled_from([0.0, 0.04]),
    "loss_type": st.sampled_from(["grpo", "dapo", "bnpo", "dr_grpo"]),
    "scale_rewards": st.sampled_from(["group", "batch", "none", True, False]),
    "multi_objective_aggregation": st.sampled_from(["sum_then_normalize", "normalize_then_sum"]),
    "rollout_log_max_rows": st.integers(1, 100),
    "seed": st.integers(0, 9),
}
OURS = ("num_generations", "num_rollouts", "downsampling_rule", "advantage_baseline")
OURS += ("selection_weights", "rollout_log_max_rows")
#: What a user may also write there.
NONSENSE = [None, "", "8", "max_varience", "no:rule", "no.py:rule", "math:floor", "variance_top_p("]
NONSENSE += [
    "variance_top_p(q=1)",
    0,
    -1,
    99,
    1.5,
    math.nan,
    math.inf,
    True,
    [],
    {},
    [1],
    ["a"],
    [0.0],
]
WRONG = st.dictionaries(st.sampled_from(OURS), st.sampled_from(NONSENSE), max_size=2)
ON_A_CPU = {"output_dir": "unused", "use_cpu": True, "bf16": False, "report_to": "none"}
ROLLOUTS = st.lists(st.sampled_from([0.0, 0.5, 1.0, math.nan]), min_size=20, max_size=20)


def kept_of(args: PODSConfig, rewards: list[list[float]]) -> list[list[int]]:
    """What is kept of groups with these rewards, or of as many rollouts as the settings ask for."""
    selection = args.selection()
    rewards_P_N = np.array(rewards)[:, : selection.num_rollouts]
    kept = selection.select(rewards_P_N, 0)
    for rewards_N, places in zip(rewards_P_N, kept, strict=True):
        advantages = group_advantages(rewards_N, np.array(places, int), selection.baseline)
        assert np.isfinite(advantages).all()
    return kept


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional=RIGHT), WRONG, st.lists(ROLLOUTS, min_size=2, max_size=5))
def test_generated_settings_select_or_say_in_one_line_what_is_wrong(right, wrong, rewards):
    said = ""
    kept = []
    asked = 0
    try:
        args = PODSConfig(**{**ON_A_CPU, **right, **wrong})
    except (PodsError, ValueError) as error:
        said = str(error)
    else:
        kept = kept_of(args, [one + [0.0] * 80 for one in rewards])
        asked = args.num_generations * len(rewards)
    event("refused" if said else "selected")
    assert said.splitlines() == ([said] if said else [])
    assert sum(map(len, kept)) == asked
    assert said or kept
