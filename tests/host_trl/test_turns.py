"""The turns of a rollout, as the rollout log keeps them."""

import json

import pytest

from podslab.tasks import get_task
from podsrl.rollout_log.turns import RESULT_LENGTH, text_of, turns_of
from support.agents import square


def calling(name, arguments, **more):
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call], **more}


def result(content, name="look"):
    return {"role": "tool", "name": name, "content": content}


SAID = {"role": "assistant", "content": "It is 7."}


def turns(*messages):
    return json.loads(turns_of([*messages]))


def test_a_conversation_is_stored_as_what_was_said_called_and_returned():
    thought = calling("look", {"a": 1}, reasoning_content="Where?")
    assert turns(thought, result("7"), SAID) == [
        {
            "role": "assistant",
            "thinking": "Where?",
            "calls": [{"name": "look", "arguments": '{"a": 1}'}],
        },
        {"role": "tool", "name": "look", "text": "7"},
        {"role": "assistant", "text": "It is 7."},
    ]


def test_its_text_is_what_the_model_said_last():
    assert text_of([calling("look", {}), result("7"), SAID]) == "It is 7."
    assert text_of([SAID, result("too late")]) == "It is 7."
    assert text_of([calling("look", {})]) == ""
    assert text_of([result("It is 7.")]) == text_of([]) == ""
    assert text_of("plain") == "plain"


def test_a_tool_that_says_the_answer_is_no_right_answer():
    # TRL ends a completion so where the result filled its last token
    correctness = get_task("gsm8k").rewards()[0]
    completion = [calling("look", {}), result("<answer>72</answer>")]
    said = [*completion, {**SAID, "content": "<answer>72</answer>"}]
    graded = correctness([completion, said], answer=["72", "72"], question=["", ""])
    assert graded == [0.0, 1.0]


@pytest.mark.parametrize("completion", ["plain", [SAID], [{**SAID, "content": ""}]])
def test_one_answer_has_no_turns(completion):
    assert turns_of(completion) is None


def test_a_call_without_a_result_and_a_thought_before_the_answer_are_turns():
    """TRL ends a rollout whose tool result is too long after the call."""
    assert turns(calling("look", {}))[0]["calls"] == [{"name": "look", "arguments": "{}"}]
    assert turns({**SAID, "reasoning_content": "So."})[0]["thinking"] == "So."


def test_long_results_are_cut_with_their_length_and_what_the_model_wrote_is_not():
    long = "ä" * (3 * RESULT_LENGTH)
    called, returned, said = turns(
        calling("look", {"at": long}), result(long), {**SAID, "content": long}
    )
    assert returned["text"] == "ä" * RESULT_LENGTH
    assert returned["length"] == 3 * RESULT_LENGTH
    assert said["text"] == long
    assert json.loads(called["calls"][0]["arguments"]) == {"at": long}


def test_images_are_named_and_not_stored():
    picture = [{"type": "image", "image": square(3)}, {"type": "text", "text": "a picture"}]
    by_address = [{"type": "image", "url": "somewhere"}]
    texts = [turn["text"] for turn in turns(result(picture), result(by_address), result([1, 2]))]
    assert texts == ["[image 16 x 16]\na picture", "[image]", "1\n2"]


def test_what_a_model_may_write_never_stops_the_log():
    """JSON allows half of a surrogate pair, NaN and any type; flat calls have no "function"."""
    flat = {"role": "assistant", "content": "", "tool_calls": [{"name": "go", "arguments": None}]}
    odd = calling("\ud800", json.loads('{"a": NaN, "b": "\\udfff", "c": [null]}'))
    first, second = turns(odd, flat)
    assert first["calls"] == [{"name": "?", "arguments": '{"a": NaN, "b": "?", "c": [null]}'}]
    assert second["calls"] == [{"name": "go", "arguments": "null"}]
    for completion in ("half \ud83d", [{"role": "assistant", "content": "half \ud83d"}]):
        assert text_of(completion) == "half ?"
