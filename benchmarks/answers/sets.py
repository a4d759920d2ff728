"""The sets of questions: kinds by their pass rates, from what results/answers.json holds."""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "results" / "answers.json"
#: Pass rates of the sets: from, to.
BANDS = {"easy": (0.30, 0.60), "middle": (0.10, 0.30), "hard": (0.02, 0.10)}
KINDS_OF_A_SET = 4

#: What is known of each kind: `question_tokens` (median), `answer_tokens` (90 % have at most so
#: many), `most_frequent` (share of the most frequent answer), `left_out` (why, if it is), and
#: `right` (pass rate), once it is measured.
Kinds = dict[str, dict[str, Any]]


def measured_before() -> Kinds:
    """What `FILE` holds of each kind; nothing if it is not there."""
    if not FILE.is_file():
        return {}
    return dict(json.loads(FILE.read_text(encoding="utf-8"))["kinds"])


def kinds_of(name: str) -> list[str]:
    """The kinds of questions of the set `name`, those with the shortest questions first."""
    low, high = BANDS[name]
    tokens_of_kind = {}
    for kind, known in measured_before().items():
        is_in_band = low <= known.get("right", -1) < high
        if is_in_band and "left_out" not in known:
            tokens_of_kind[kind] = known["question_tokens"]

    shortest_first = sorted(tokens_of_kind, key=lambda kind: tokens_of_kind[kind])
    return shortest_first[:KINDS_OF_A_SET]
