"""Options that hosts pass as a mapping: what is refused, and that the message helps."""

import pytest

from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.options import Options, check_options


def check(n=64, **given):
    return check_options(given, n, where="trainer.v1.pods_sync.", n_name="rollout.n")


def test_only_m_has_to_be_given():
    assert check(m=16) == Options(m=16, rule="max_variance", baseline="kept", seed=None)


def test_every_option_arrives():
    given = {"m": 2, "rule": "random", "baseline": "group", "seed": 7}
    assert check(**given) == Options(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"trainer\.v1\.pods_sync\.m is not set; .* 2 <= m <= 64 \(rollout\.n"),
        ({"m": None}, "m is not set"),
        ({"m": 65}, r"m=65 rollouts can't be kept of rollout\.n=64; .* raise rollout\.n"),
        ({"m": 1}, r"m=1; allowed: 2 <= m <= 64 .* no group to be compared with"),
        ({"m": 0}, "m=0; allowed: 2 <= m"),
        ({"m": 16.0}, r"m=16\.0; allowed: an integer"),
        ({"m": "16"}, "m='16'; allowed: an integer"),
        ({"m": True}, "m=True; allowed: an integer"),
        ({"m": 16, "k": 1, "N": 3}, r"unknown: trainer\.v1\.pods_sync\.N, .*\.k; allowed: .*\.m, "),
        ({"m": 16, "baseline": "all"}, "baseline='all'; allowed: kept, group"),
        ({"m": 16, "seed": -1}, "seed=-1; allowed: an integer >= 0"),
        ({"m": 16, "seed": "x"}, "seed='x'; allowed"),
    ],
)
def test_a_bad_option_is_refused_with_what_is_allowed(given, message):
    with pytest.raises(InvalidInputError, match=message):
        check(**given)


def test_an_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(
        UnknownNameError, match=r"unknown rule 'max_var'; did you mean 'max_variance'"
    ):
        check(m=16, rule="max_var")
