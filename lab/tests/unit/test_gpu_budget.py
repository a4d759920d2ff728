"""The time of benchmarks/gpu: what is left is shared out so that everything fits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("trl")

from benchmarks.gpu.comparison import Study
from benchmarks.gpu.model import longest
from benchmarks.gpu.sizes import GPU, share_out


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


def test_the_gpu_comparison_is_one_that_pods_compare_accepts(tmp_path: Path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    study = Study(GPU, "cpu", model, (4, 10), tmp_path)
    spec = study.spec([0, 1], {"training_seconds": 40.0})
    # 512 rows in every update of all arms, and four times as many rollouts, except for grpo
    assert [own["per_device_train_batch_size"] for own in spec.arms.values()] == [512] * 4
    assert {arm: own["num_rollouts"] for arm, own in spec.arms.items()} == {
        "grpo": 16,
        "grpo_ga": 64,
        "pods": 64,
        "across": 4,
    }
    assert spec.arms["grpo_ga"]["gradient_accumulation_steps"] == 4


def test_a_gold_working_of_the_hardest_sum_fits_into_the_longest_completion():
    from podslab.models.tiny.tokenizer import build_tokenizer
    from podslab.tasks.arithmetic import worked_sum

    tokenizer = build_tokenizer()
    for columns in (1, 2, 10):
        nines = int("9" * columns)
        text = worked_sum(nines, nines) + tokenizer.eos_token
        assert len(tokenizer.encode(text)) <= longest(columns)
