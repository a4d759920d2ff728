"""What PODS would keep, chosen anew while the app is open: as if it had been asked for at first."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from podsrl.errors import UnknownNameError
from podsrl.inspector.answers import state_of
from podsrl.inspector.keeping import Keep
from podsrl.inspector.search import Query, write_results
from podsrl.methods import METHODS
from podsrl.rules import RULES, Rule
from podsrl.selection import Selection, select_groups
from support.foreign_samples import SAMPLES, copied, verl, verl_rows, write_lines
from support.inspected import index_of

NUMBERS = 'step, "group", rollout, reward, kept, advantage'


def numbers(index):
    """All that follows from what is kept."""
    return (
        index.rows(f"SELECT {NUMBERS} FROM rollouts ORDER BY ALL"),
        index.rows("SELECT * FROM steps ORDER BY ALL"),
    )


@pytest.mark.parametrize("name", ["trl", "verl", "messages"])  # the first has advantages of its own
@pytest.mark.parametrize("rule", ["max_variance", "max_reward", "max_contrast"])
@pytest.mark.parametrize("m", [None, 2, 3])
def test_a_choice_is_that_of_a_run_opened_with_it(tmp_path, name, rule, m):
    path = SAMPLES[name](tmp_path / "sample")
    with index_of(path) as index, index_of(path, rule=rule, keep=m) as expected:
        index.keep_by(Keep(m, rule))
        assert numbers(index) == numbers(expected)
        assert state_of(index)["choice"] == {"rule": rule, "keep": m, "rules": list(RULES)}
        [run] = state_of(index)["runs"]
        assert run["would_keep"] == str(Keep(m, rule))


def test_a_file_that_comes_later_is_chosen_from_alike(tmp_path):
    folder = verl(tmp_path / "dump")
    with index_of(folder) as index:
        index.keep_by(Keep(3, "max_reward"))
        write_lines(folder / "3.jsonl", verl_rows(3, n=8))
        index.refresh()
        kept = index.rows("SELECT kept FROM rollouts WHERE step = 3 AND kept")
        assert len(kept) == 2 * 3
        with index_of(folder, keep=3, rule="max_reward") as expected:
            assert numbers(index) == numbers(expected)


def test_two_files_of_one_step_are_chosen_from_one_by_one(tmp_path):
    """As they are read: a batch rule looks at one file."""
    for name, questions in {"a.jsonl": ("a", "b"), "b.jsonl": ("c",)}.items():
        write_lines(tmp_path / "dump" / name, verl_rows(1, questions=questions))
    with (
        index_of(tmp_path / "dump") as index,
        index_of(tmp_path / "dump", keep=2, rule="max_contrast") as expected,
    ):
        index.keep_by(Keep(2, "max_contrast"))
        assert numbers(index) == numbers(expected)


def test_what_is_downloaded_follows_the_choice(tmp_path):
    with index_of(verl(tmp_path / "dump")) as index:
        index.keep_by(Keep(3, "max_reward"))
        table = pq.read_table(write_results(index, Query(kept=1), "parquet", tmp_path)).to_pylist()
        assert len(table) == 2 * 2 * 3
        assert all(row["kept"] and row["advantage"] is not None for row in table)
        dropped = write_results(index, Query(kept=0), "parquet", tmp_path)
        assert pq.read_table(dropped)["advantage"].null_count == 2 * 2


def test_what_a_file_says_itself_is_not_chosen(tmp_path):
    with index_of(copied("prime_rl", tmp_path / "run")) as index:
        before = numbers(index)
        index.keep_by(Keep(2, "max_reward"))
        assert numbers(index) == before
        assert state_of(index)["choice"] is None


@pytest.mark.parametrize("name", sorted(METHODS))
def test_advantages_are_those_of_the_method_with_the_rule(name):
    """With rejection sampling all kept rewards are 1, and only compared with all n they teach."""
    groups = [np.array([0.0, 1.0] * 4), np.array([0.0, 0.0, 0.0, 1.0] * 2), np.zeros(8)]
    method = METHODS[name].selection
    kept_R, advantages_R = Keep(2, method.rule).choice(groups)

    of_method = Selection(8, 2, rule=method.rule, baseline=method.baseline)
    expected = select_groups(of_method, groups)
    assert kept_R.tolist() == expected.kept_P_N.ravel().tolist()
    assert advantages_R[kept_R] == pytest.approx(expected.advantages_P_N[expected.kept_P_N])
    assert np.isnan(advantages_R[~kept_R]).all()


def test_best_rollouts_have_passes(tmp_path):
    with index_of(verl(tmp_path / "dump"), rule="max_reward", keep=2) as index:
        steps = index.rows("SELECT kept, rows_with_pass FROM steps")
        assert all(step["rows_with_pass"] == step["kept"] for step in steps)


@pytest.mark.parametrize(
    ("scope", "needs_group", "baseline"),
    [("batch", True, "group"), ("batch", False, "kept"), ("prompt", True, "kept")],
)
def test_a_rule_of_no_method_has_the_baseline_that_it_needs(
    monkeypatch, scope, needs_group, baseline
):
    """A prompt rule leaves a row alone only where one is kept, and at least two are here."""
    mine = Rule(lambda rewards_P_N, count, seed: None, scope, needs_group_baseline=needs_group)
    monkeypatch.setitem(RULES, "mine", mine)
    assert Keep(2, "mine").baseline == baseline


def test_an_unknown_rule_changes_nothing(tmp_path):
    with index_of(verl(tmp_path / "dump")) as index:
        before = numbers(index)
        with pytest.raises(UnknownNameError, match="max_variance"):
            index.keep_by(Keep(2, "max_varianze"))
        assert numbers(index) == before
