import asyncio
import json
from types import SimpleNamespace

import pytest

from podsgrading.unscorable import UnscorableError
from podslab.tasks import get_task
from podslab.tasks.shims import slime_reward, verl_compute_score

RIGHT, WRONG = "<answer>72</answer>", "<answer>71</answer>"
#: To read it takes the parser seconds.
SLOW = f"<answer>{'+'.join(f'x^{{{k}}}' for k in range(200))}</answer>"
#: Seconds, in which it can't.
TOO_SHORT = 0.2


def test_a_task_is_a_compute_score_of_verl():
    compute_score = verl_compute_score("gsm8k")
    called = {"data_source": "openai/gsm8k", "ground_truth": "72", "extra_info": {"index": 3}}
    score = compute_score(solution_str=RIGHT, **called, reward_router_address=None)
    assert score == {"score": 1.0, "acc": 1.0, "format": 0.0, "unscorable": 0.0}
    assert compute_score(solution_str=WRONG, **called)["score"] == 0.0
    compute_score = verl_compute_score("math", deadline=TOO_SHORT)
    assert compute_score("x", SLOW, "x^2", None)["unscorable"] == 1.0


def test_verl_may_hand_over_the_whole_row():
    row = {"answer": "B", "choices": ["CC", "CCO"]}
    compute_score = verl_compute_score("sciknoweval")
    for gold in (row, json.dumps(row)):
        assert compute_score("x", "<answer>CCO</answer>", gold)["score"] == 1.0
    extra = {"choices": ["CC", "CCO"]}
    assert compute_score("x", "<answer>CCO</answer>", "B", extra)["score"] == 1.0
    assert verl_compute_score("math")("x", r"\boxed{\{1,2\}}", r"{1,2", None)["score"] == 0.0
    assert verl_compute_score("gsm8k")("x", RIGHT, {}, {"answer": "72"})["score"] == 1.0
    assert verl_compute_score("math")("x", r"\boxed{3}", "{}", None)["score"] == 0.0  # a set


def test_a_task_is_a_reward_of_slime():
    reward = slime_reward("math", deadline=TOO_SHORT)
    samples = [
        SimpleNamespace(response=RIGHT, label="72", metadata={}),
        SimpleNamespace(response=WRONG, label="72", metadata=None),
        SimpleNamespace(response=SLOW, label="x^2", metadata={}),
    ]
    assert asyncio.run(reward(None, samples)) == [1.0, 0.0, 0.0]
    assert samples[2].metadata == {"unscorable": True}
    assert asyncio.run(reward(None, samples[0])) == 1.0


def test_what_could_not_be_graded_is_logged_and_stops_the_run_when_it_is_too_much():
    task = get_task("math", deadline=TOO_SHORT)
    task.max_unscorable = 0.5
    logged = {}
    correctness = task.rewards()[0]
    columns = {"answer": ["72", "72", "x^2", "72"], "log_metric": logged.__setitem__}
    completions = [RIGHT, RIGHT, SLOW, RIGHT]
    assert correctness(completions=completions, **columns) == [1.0, 1.0, None, 1.0]
    assert logged["grading/unscorable"] == 0.25
    assert logged["grading/timeouts"] == 1
    assert logged["grading/seconds"] >= 0
    with pytest.raises(UnscorableError, match="max_unscorable"):
        correctness(completions=[SLOW] * 200, answer=["x^2"] * 200)


def test_metrics_are_logged_once_for_a_batch_that_three_functions_grade():
    calls = []
    columns = {"answer": ["72"], "log_metric": lambda name, value: calls.append(name)}
    for reward in get_task("gsm8k").rewards():
        reward(completions=[RIGHT], **columns)
    assert sorted(calls) == ["grading/seconds", "grading/timeouts", "grading/unscorable"]
