"""The time of benchmarks/gpu: what is left is shared out so that everything fits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("trl")

from benchmarks.gpu.comparison import Study
from benchmarks.gpu.sizes import GPU, SMOKE, Size, share_out


@given(
    seconds=st.floats(-10, 1000),
    arms=st.integers(1, 5),
    overhead=st.floats(0, 60),
    least=st.floats(1, 60),
    seeds=st.integers(1, 8),
)
def test_the_runs_fit_into_the_time_and_none_is_too_short(seconds, arms, overhead, least, seeds):
    count, training = share_out(seconds, arms, overhead, least, 2 * least, seeds)
    assert 0 <= count <= seeds
    assert count * arms * (training + overhead) <= seconds + 1e-6 or count == 0
    if count:
        assert least <= training <= 2 * least
    else:  # not even one seed would fit
        assert arms * (least + overhead) > seconds - 1e-6


@pytest.mark.parametrize("size", [GPU, SMOKE])
def test_the_gpu_comparison_is_one_that_pods_compare_accepts(tmp_path: Path, size: Size):
    spec = Study(size, "cpu", tmp_path).spec([0, 1], {"training_seconds": 40.0})
    assert {own["per_device_train_batch_size"] for own in spec.arms.values()} == {size.rows}
    rollouts = {arm: own["num_rollouts"] for arm, own in spec.arms.items()}
    assert rollouts == {**dict.fromkeys(rollouts, 8), "grpo_pairs": 2, "best_of_four": 4}
    assert spec.arms["grpo"]["num_generations"] == 8
