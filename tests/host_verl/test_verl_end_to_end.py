"""The real `verl.trainer.main_ppo`, with Ray, for two steps of 4 prompts x 8 rollouts on a CPU.

cpu_bed has what verl lacks for that; the trainer under test is the installed one.
"""

import itertools
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed; run `make test-verl`")

import cpu_files
import cpu_run as run

pytestmark = pytest.mark.slow

M, ROWS = 4, run.PROMPTS * 4
PODS = "trainer.v1.trainer_mode=pods_sync"


RUNS = {
    "half": [PODS, f"++trainer.v1.pods_sync.m={M}"],  # the script has set it to 16
    "whole": [PODS, f"+trainer.v1.pods_sync.m={run.ROLLOUTS}"],
    "sync": ["trainer.v1.trainer_mode=sync"],
    "colocate": [
        "trainer.v1.trainer_mode=pods_colocate_async",
        f"+trainer.v1.pods_colocate_async.m={M}",
        "+trainer.v1.pods_colocate_async.baseline=group",
    ],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Every run from the same model and prompts, two at a time: one mostly waits for imports."""
    folder = tmp_path_factory.mktemp("verl")
    cpu_files.write_model(folder / "model")
    cpu_files.write_prompts(folder / "prompts.parquet", run.PROMPTS * run.STEPS)
    with ThreadPoolExecutor(max_workers=2) as pool:
        scripts = {"half": run.SCRIPT}  # the recipe for eight GPUs, with all that is large swapped
        yield {
            name: pool.submit(run.train, folder, name, *RUNS[name], script=scripts.get(name))
            for name in RUNS
        }


@pytest.fixture
def half(runs):
    """PODS with m = 4 of n = 8."""
    return runs["half"].result()


@pytest.fixture
def whole(runs):
    """PODS with m = n."""
    return runs["whole"].result()


@pytest.fixture
def sync(runs):
    """verl's own."""
    return runs["sync"].result()


@pytest.fixture
def colocate(runs):
    """PODS in verl's colocated asynchronous mode, with the other baseline."""
    return runs["colocate"].result()


def passes(rows):
    """How often each model was run on how many rows."""
    return Counter((row["model"], row["pass"], row["rows"]) for row in rows)


EACH_STEP = [("actor", "forward"), ("reference", "forward"), ("actor", "update")]


def test_old_log_probs_reference_and_update_see_the_kept_rows_and_no_padding(half):
    assert passes(half.rows) == {(*stage, ROWS): run.STEPS for stage in EACH_STEP}
    # a row of padding has no token that is trained
    assert all(min(row["trained_tokens"]) > 0 for row in half.rows)
    assert [step["pods/padding_rows"] for step in half.metrics] == [0, 0]


def test_the_kept_rollouts_have_the_largest_variance_of_all_subsets(half):
    for rollouts in half.rollouts:
        assert len(rollouts) == run.PROMPTS * run.ROLLOUTS  # all n are written, kept or not
        groups = defaultdict(list)
        for row in rollouts:
            groups[row["input"]].append(row)
        for group in groups.values():
            kept = [row["score"] for row in group if row["kept"]]
            best = max(
                np.var(subset)
                for subset in itertools.combinations([row["score"] for row in group], M)
            )
            assert len(kept) == M
            assert np.var(kept) == pytest.approx(best, abs=1e-6)


def test_dropped_rows_leave_the_queue_at_once_and_the_others_after_the_step(half):
    for held, rollouts in zip(half.queue, half.rollouts, strict=True):
        assert held["keys"] == sorted(row["uid"] for row in rollouts if row["kept"])


def test_the_first_step_says_what_the_update_sees(half):
    said = "pods_sync: selected 4 of 8 in 4 groups; the update sees 16 rows"
    assert half.log.count(said) == 1


def test_verls_own_metrics_describe_all_n_rollouts(half, sync):
    """Both runs generate the same in the first step, so verl must report the same of it."""
    of_rollouts = ("critic/score/", "critic/rewards/", "response", "prompt_length", "num_turns")
    theirs, ours = sync.metrics[0], half.metrics[0]
    expected = {name: theirs[name] for name in theirs if name.startswith(of_rollouts)}
    assert len(expected) > 20
    assert {name: ours[name] for name in expected} == pytest.approx(expected)
    kept = [row["score"] for row in half.rollouts[0] if row["kept"]]
    assert ours["pods/kept_reward"] == pytest.approx(np.mean(kept))
    assert ours["pods/kept_reward"] != pytest.approx(ours["critic/score/mean"])
    assert ours["pods/rollouts"] == 32
    assert ours["pods/kept_rollouts"] == 16
    tokens = ours["pods/kept_tokens"] + ours["pods/dropped_tokens"]
    assert tokens == pytest.approx(
        32 * (theirs["prompt_length/mean"] + theirs["response_length/mean"])
    )


def test_m_equal_to_n_is_verls_own_sync_from_the_same_seed(whole, sync):
    for ours, theirs in zip(whole.rollouts, sync.rollouts, strict=True):
        assert sorted((row["input"], row["output"], row["score"]) for row in ours) == sorted(
            (row["input"], row["output"], row["score"]) for row in theirs
        )
    assert passes(whole.rows) == passes(sync.rows)
    for name, weight in sync.weights.items():
        assert np.allclose(whole.weights[name], weight, rtol=0, atol=1e-6), name
    names = ("actor/grad_norm", "actor/kl_loss", "actor/entropy", "critic/advantages/max")
    for ours, theirs in zip(whole.metrics, sync.metrics, strict=True):
        assert {name: ours[name] for name in names} == pytest.approx(
            {name: theirs[name] for name in names}, abs=1e-5
        )


def test_the_update_moves_the_weights_and_differently_with_half_of_the_rollouts(half, sync):
    """Else the test above would compare weights that nothing changes."""
    moved = [np.abs(half.weights[name] - sync.weights[name]).max() for name in sync.weights]
    assert max(moved) > 1e-3


def test_the_colocated_asynchronous_mode_trains_the_kept_rows_only(colocate):
    assert passes(colocate.rows) == {(*stage, ROWS): run.STEPS for stage in EACH_STEP}
    assert "pods_colocate_async: selected 4 of 8 in 4 groups; the update sees 16" in colocate.log
    for rollouts in colocate.rollouts:
        assert sum(row["kept"] for row in rollouts) == ROWS
