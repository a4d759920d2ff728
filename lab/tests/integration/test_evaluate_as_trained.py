"""`pods evaluate` measures a checkpoint as its run did, and says how sure it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from podslab.evaluation import sampling
from podslab.evaluation.records import evaluations
from podslab.evaluation.sampling import Graded, Sampling, score
from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.tiny_run import TINY_RUN

ARITHMETIC = ["--task", "arithmetic", "--task_options", json.dumps(TINY_RUN["task_options"])]


@pytest.mark.slow
def test_length_and_sampling_are_those_of_the_run_unless_given(
    config: Any, tiny_model: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    used: list[Sampling] = []
    original = sampling.sample_and_grade

    def remember(*args: Any) -> Any:
        used.append(args[5])
        return original(*args)

    path = config(
        max_steps=1,
        max_completion_length=24,
        temperature=0.9,
        top_k=7,
        evaluation_temperature=0.5,
        seed=3,
    )
    assert main(["train", "--config", path]) == 0
    checkpoint = str(tmp_path / "run" / "checkpoint-1")

    monkeypatch.setattr(sampling, "sample_and_grade", remember)
    capsys.readouterr()
    for given in ([], ["--max_completion_length", "12", "--temperature", "0"]):
        assert main(["evaluate", checkpoint, *ARITHMETIC, "--problems", "2", *given]) == 0

    printed = capsys.readouterr().out

    as_trained, as_given = used
    assert as_trained.temperature == 0.5
    assert (as_trained.max_new_tokens, as_trained.top_k, as_trained.seed) == (24, 7, 3)
    assert (as_given.temperature, as_given.max_new_tokens, as_given.top_k) == (0.0, 12, 7)
    assert f"temperature 0.5, 24 tokens at most; other settings as in {tmp_path / 'run'}" in printed
    assert "+- 0.0" not in printed

    assert main(["evaluate", str(tiny_model), *ARITHMETIC, "--problems", "2"]) == 0
    assert used[-1] == Sampling()
    assert "temperature 1, 512 tokens at most\n" in capsys.readouterr().out


@pytest.mark.slow
def test_greedy_answers_are_recorded_beside_the_samples_and_change_no_step(
    config: Any, tmp_path: Path
):
    recorded = []
    for is_greedy in (False, True):
        out = tmp_path / f"greedy-{is_greedy}"
        path = config(
            model_name_or_path="tiny",  # it can add, and is not yet sure
            evaluation_greedy=is_greedy,
            task_options={"train_size": 32, "test_size": 8},
            max_completion_length=48,
            evaluation_repeats=3,
            evaluation_steps=1,
            output_dir=str(out),
            learning_rate=1e-2,
        )
        assert main(["train", "--config", path]) == 0
        recorded.append(evaluations(RunFolder(out)))

    without, beside = recorded
    assert [point.step for point in beside] == [0, 1, 2, 3]
    assert [point.rewards for point in without] == [point.rewards for point in beside]
    assert [len(point.greedy_rewards) for point in without] == [0] * 4
    assert [len(point.greedy_rewards) for point in beside] == [4] * 4

    # The likeliest answers are those of greedy decoding: all right at first, where few samples are.
    assert beside[0].greedy_rewards == (1.0,) * 4
    assert beside[0].mean("answer_accuracy") < 0.7


def test_a_few_problems_that_are_all_right_prove_little():
    right = Graded(True, True, 4)
    # Wilson's interval at one standard error: sqrt(1 / 16) / (1 + 1/2) of two problems
    assert score([[right], [right]]).standard_error == pytest.approx(1 / 6)
    assert score([[right] * 8, [right] * 8]).standard_error == pytest.approx(1 / 6)
    assert score([[right]]).standard_error == pytest.approx(0.25)
    # of many it is as small as it should be, and of mixed ones the spread over problems decides
    assert score([[right]] * 1000).standard_error < 0.001
    wrong = Graded(False, True, 4)
    half = score([[right], [wrong]] * 50).standard_error
    assert half == pytest.approx((0.25 * 100 / 99 / 100) ** 0.5)
