"""Methods by name: complete selection, of which explicit ones win unless they contradict."""

import numpy as np
import pytest

import podsrl
from podsrl.errors import FieldError, InvalidInputError, UnknownNameError
from podsrl.methods import complete_selection, resolve_method, selection_from_options
from podsrl.selection import Selection


def test_without_a_name_it_is_the_method_of_the_paper():
    selection = complete_selection()
    assert (selection.method, selection.num_rollouts, selection.num_kept) == ("pods", 32, 8)
    assert (selection.rule, selection.baseline) == ("max_variance", "kept")
    assert complete_selection("pods") == selection


@pytest.mark.parametrize("name", podsrl.METHODS)
def test_every_method_is_a_selection_that_is_allowed(name):
    selection = complete_selection(name)
    assert selection.method == name
    rule = selection.chosen_rule
    method = podsrl.METHODS[name]
    assert method.source
    assert method.rollouts_per_kept * selection.num_kept == selection.num_rollouts
    assert (selection.num_rollouts == selection.num_kept) == method.keeps_all
    # a rule that leaves rows alone in their group has something to compare them with
    assert selection.baseline == "group" or not (rule.across_prompts and rule.needs_group_baseline)


@pytest.mark.parametrize(
    ("method", "given", "n", "m"),
    [
        ("pods", {"num_kept": 16}, 64, 16),
        ("pods", {"num_rollouts": 64}, 64, 16),
        ("pods", {"num_rollouts": 64, "num_kept": 2}, 64, 2),
        (None, {"num_kept": 16}, 64, 16),
        ("grpo", {"num_kept": 16}, 16, 16),
        ("grpo", {"num_rollouts": 4}, 4, 4),
        ("max_contrast", {"num_rollouts": 8}, 8, 2),
        ("max_contrast", {"num_rollouts": 3, "num_kept": 1}, 3, 1),
        ("dynamic_sampling", {"num_kept": 4}, 16, 4),
    ],
)
def test_sizes_that_are_given_win_and_the_other_one_follows(method, given, n, m):
    selection = complete_selection(method, **given)
    assert (selection.num_rollouts, selection.num_kept) == (n, m)


def test_the_integers_of_numpy_are_sizes_as_any_other():
    # np.arange(...) gives them: the other size follows, and nothing is kept whole by mistake
    for given in ({"num_kept": np.int64(4)}, {"num_rollouts": np.int64(16)}):
        selection = complete_selection(**given)
        assert (selection.num_rollouts, selection.num_kept) == (16, 4)
        assert {type(selection.num_rollouts), type(selection.num_kept)} == {int}


def test_what_is_no_size_is_refused_by_its_name():
    for given in (True, "4", 4.0):
        with pytest.raises(InvalidInputError, match=r"n must be an integer; got "):
            selection_from_options({"m": 4}, given, where="", n_name="n")
        with pytest.raises(InvalidInputError, match=r"m must be an integer; got "):
            selection_from_options({"m": given}, 8, where="", n_name="n")


def test_an_explicit_baseline_wins():
    assert complete_selection("max_contrast", baseline="kept").baseline == "kept"


@pytest.mark.parametrize(
    ("method", "given", "says"),
    [
        ("grpo", {"num_rollouts": 16, "num_kept": 8}, "the same number; got 16 and 8"),
        (
            "2-grpo",
            {"num_kept": 4},
            "has 2 rollouts of each prompt; got 4 by num_rollouts or num_kept",
        ),
        (
            "max_contrast",
            {"rule": "max_variance"},
            "rule='max_contrast', and rule='max_v",
        ),
        ("grpo", {"rule": "random"}, "trains on all rollouts, and rule='random' has nothing to"),
        (
            "cppo",
            {"num_rollouts": 8, "num_kept": 8},
            "and 8 of 8 are kept; raise num_",
        ),
        ("rejection-sampling", {"baseline": "kept"}, "right answers teach nothing"),
        ("pods", {"num_rollouts": 30}, "num_rollouts=30 is no multiple of 4"),
    ],
)
def test_a_contradiction_is_one_plain_error(method, given, says):
    with pytest.raises(FieldError, match=says):
        complete_selection(method, **given)
    # the rule that the name stands for is no contradiction: a saved config can be read again
    complete_selection(method, rule=resolve_method(method).selection.rule)


def test_settings_without_a_name_get_the_name_that_they_are_known_by():
    raft = {"num_rollouts": 4, "num_kept": 1, "rule": "max_reward", "baseline": "group"}
    assert complete_selection(**raft).method == "rejection-sampling"
    assert complete_selection(num_rollouts=16, num_kept=16).method == "grpo"
    assert complete_selection(rule="random").method == "custom"


@pytest.mark.parametrize(
    "given", ["rejection_sampling", "rejection-sampling", "Rejection-Sampling"]
)
def test_hyphens_and_underscores_are_alike_and_capitals_do_not_matter(given):
    assert complete_selection(given).method == "rejection-sampling"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("DAPO", "did you mean 'dynamic-sampling'"),
        ("raft", "did you mean 'rejection-sampling'"),
        ("grpo-ga", "GRPO-GA is method 'grpo' with as many rollouts"),
    ],
)
def test_the_name_of_a_paper_leads_to_its_method(given, says):
    with pytest.raises(UnknownNameError, match=says):
        complete_selection(given)


def test_an_unknown_method_is_refused_with_the_nearest_one_or_all():
    with pytest.raises(UnknownNameError, match="did you mean 'dynamic-sampling'"):
        complete_selection("dynamic-samplin")
    with pytest.raises(UnknownNameError, match="that is a rule"):
        complete_selection("max_variance")
    with pytest.raises(UnknownNameError, match="the methods are pods, grpo, 2-grpo, "):
        complete_selection("best")


def test_a_host_names_fields_as_its_users_know_them():
    def read(**options):
        return selection_from_options(options, 64, where="trainer.pods.", n_name="rollout.n")

    assert read() == Selection(64, 16)
    assert read(method="max_contrast") == Selection(64, 16, "max_contrast", "group")
    assert read(method="grpo") == Selection(64, 64)
    says = r"trainer\.pods\.method='grpo' .* rollout\.n and trainer\.pods\.m are .* got 64 and 8"
    with pytest.raises(InvalidInputError, match=says):
        read(method="grpo", m=8)
    with pytest.raises(InvalidInputError, match=r"trainer\.pods\.rule='max_contrast', and"):
        read(method="max_contrast", rule="random")
