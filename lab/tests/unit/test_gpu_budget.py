"""The time of benchmarks/gpu: what is left is shared out so that everything fits."""

import doctest
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("trl")


@pytest.fixture(scope="module")
def study() -> Any:
    """The modules of benchmarks/gpu."""
    import benchmarks.gpu.budget
    import benchmarks.gpu.comparison
    import benchmarks.gpu.model
    import benchmarks.gpu.packages
    import benchmarks.gpu.sizes

    return benchmarks.gpu


def test_the_examples_in_the_docstrings_hold(study: Any) -> None:
    modules: list[ModuleType] = [study.budget, study.model, study.packages]
    results = [doctest.testmod(module) for module in modules]
    assert sum(result.attempted for result in results) >= 5
    assert sum(result.failed for result in results) == 0


@given(
    seconds=st.floats(-10, 1000),
    arms=st.integers(1, 5),
    overhead=st.floats(0, 60),
    least=st.floats(1, 60),
    rounds=st.integers(1, 8),
)
def test_the_runs_fit_into_the_time_and_none_is_too_short(
    study: Any, seconds: float, arms: int, overhead: float, least: float, rounds: int
) -> None:
    count, training = study.budget.share_out(seconds, arms, overhead, least, 2 * least, rounds)
    assert 0 <= count <= rounds
    assert count * arms * (training + overhead) <= seconds + 1e-6 or count == 0
    if count:
        assert least <= training <= 2 * least
    else:  # not even one round would fit
        assert arms * (least + overhead) > seconds - 1e-6


def test_writing_has_its_own_time_and_the_deadline_counts_from_the_first_process(
    study: Any,
) -> None:
    began = time.time() - 60
    deadline = study.budget.Deadline.after(9.0, began)
    # 9 minutes, less the one that is gone and 12 s for writing
    assert deadline.left == pytest.approx(540 - 60 - 12, abs=2)


def test_the_second_comparison_comes_once_the_first_has_two_seeds(study: Any) -> None:
    size = study.sizes.GPU
    plan = study.comparison.plan_rounds
    shared = study.comparison.Study(size, "cpu", Path("model"), (4, 10), Path("runs"))
    round_of = 3 * (size.least + 10.0)
    for whole, expected in ((0, [0, 0]), (1, [1, 0]), (2, [2, 0]), (3, [2, 1]), (4, [3, 1])):
        planned = plan(shared, ["main", "expensive"], 10.0, (whole + 0.01) * round_of)
        assert [rounds.count for rounds in planned] == expected


@pytest.mark.parametrize("name", ["main", "expensive"])
def test_the_gpu_comparison_is_one_that_pods_compare_accepts(
    study: Any, name: str, tmp_path: Path
) -> None:
    size, model = study.sizes.GPU, tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    shared = study.comparison.Study(size, "cpu", model, (4, 10), tmp_path)
    spec = shared.spec(name, [0, 1], {"training_seconds": 40.0})
    # 32 prompts: 512 rows in every update of all arms, and four times as many rollouts but for grpo
    assert {arm: own["per_device_train_batch_size"] for arm, own in spec.arms.items()} == {
        "grpo": 512,
        "grpo_ga": 512,
        "pods": 512,
    }
    assert [own["num_rollouts"] for own in spec.arms.values()] == [16, 64, 64]
    assert spec.arms["grpo_ga"]["gradient_accumulation_steps"] == 4
    assert all(
        own.get("num_iterations", 1) == (2 if name == "expensive" else 1)
        for own in spec.arms.values()
    )


def test_a_gold_working_of_the_hardest_sum_fits_into_the_longest_completion(study: Any) -> None:
    from podslab.tasks.arithmetic import worked_sum
    from podslab.models.tiny.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    for columns in (1, 2, 10):
        nines = int("9" * columns)
        text = worked_sum(nines, nines) + tokenizer.eos_token
        assert len(tokenizer.encode(text)) <= study.model.longest(columns)
