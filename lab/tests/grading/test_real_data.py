"""Variants of real gold answers; the complete data is for `grading_checks.real_data`."""

from collections import Counter

import pytest

from grading_checks.real_data import drawn_pairs, graded
from podsgrading.equations import balances
from support.data import SAMPLE


def test_variants_that_keep_a_value_are_right_and_those_that_change_it_are_wrong():
    pairs = drawn_pairs(SAMPLE, count=600, seed=5)
    verdicts = graded(pairs)
    assert Counter(pair.is_right for pair in pairs)[True] > 150
    assert [p for p, v in zip(pairs, verdicts, strict=True) if v is not p.is_right] == []


@pytest.mark.parametrize(
    "answer",
    [
        "(NH4)2Cr2O7(s) = 4H2O + N2 + Cr2O3(s)",
        "(NH4)2Cr2O7 = Cr2O3 + N2 + 4H2O",
        "(NH4)2Cr2O7 -> Cr2O3 + 4H2O + N2(g)",
        "(NH4)2Cr2O7(s) = N2() + 4H2O() + Cr2O3(s)",
        "2(NH4)2Cr2O7 = 2Cr2O3 + 2N2 + 8H2O",
    ],
)
def test_a_state_that_was_left_empty_is_a_state(answer):
    gold = "(NH4)2Cr2O7(s) = Cr2O3(s) + N2() + 4H2O"
    assert balances(answer, gold)
    assert not balances(answer.replace("N2", "2N2", 1), gold)
