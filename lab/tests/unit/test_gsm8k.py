import itertools
import json
import re

import pytest

from podsgrading.extract import possible_answers
from podslab.tasks import get_task
from podslab.tasks.base import format_span
from podsrl.errors import InvalidInputError
from tests.support.arguable import answered
from tests.support.data import SAMPLE, sample_and_complete


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@sample_and_complete("gsm8k", "all 7,473 and 1,319 gold answers pass their own grader")
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_every_gold_answer_of_gsm8k_passes_its_own_grader(split, mode, data):
    task = get_task("gsm8k", mode=mode)
    rows = task.load(split, str(data))
    assert len(rows) == (10 if data == SAMPLE / "gsm8k" else {"train": 7473, "test": 1319}[split])
    wrong = [row for row in rows if task.grade(task.gold_completion(row), row) != (True, True)]
    assert wrong == []


@sample_and_complete("gsm8k", "none of 1,200 gold answers passes as its neighbour's")
def test_no_gold_answer_of_gsm8k_passes_as_its_neighbour(data):
    task = get_task("gsm8k")
    rows = task.load("test", str(data))
    pairs = [(a, b) for a, b in itertools.pairwise(rows) if a["answer"] != b["answer"]]
    assert len(pairs) > 0.75 * len(rows)
    assert not any(task.grade(task.gold_completion(a), b).answer for a, b in pairs)


def test_strict_mode_wants_a_declared_answer_and_lenient_mode_the_last_number():
    strict, lenient = get_task("gsm8k"), get_task("gsm8k", mode="lenient")
    row = {"answer": "72"}
    rambling = "She sold 48 and then 24, which makes 72"
    assert strict.grade(rambling, row).answer is False
    assert lenient.grade(rambling, row).answer is True
    assert lenient.grade(rambling + " in 2 months", row).answer is False
    assert lenient.grade("<answer>72", row).answer is True  # cut off before the closing tag
    assert strict.grade("<answer>72", row).answer is False


def test_a_gold_answer_that_is_no_number_is_compared_as_a_text():
    task = get_task("gsm8k")
    assert task.grade(answered("72"), {"answer": "seventy"}).answer is False
    assert task.grade(answered("seventy"), {"answer": "seventy"}).answer is True


def test_the_untouched_answer_field_of_the_dataset_is_a_gold_answer_too():
    row = {"answer": "48 + 24 = <<48+24=72>>72\n#### 72"}
    assert get_task("gsm8k").grade(answered("72"), row).answer is True


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"question": "q", "answer": "#### 1"}', '{"question": '], "line 2: not JSON"),
        (
            ['{"question": "q", "answer": "#### 1"}', '{"question": "q"}'],
            "line 2: no field 'answer'",
        ),
        (['{"question": "q", "answer": "#### 1"}', "", "[1]"], "line 3: not a JSON object"),
        (['{"question": "q", "answer": "1"}'], "line 1: the field 'answer' has no '####"),
        (['{"question": "q", "answer": "#### one"}'], "'one' is not a number"),
        ([""], "the dataset is empty"),
    ],
)
def test_a_bad_data_file_is_refused_with_the_line(tmp_path, lines, words):
    path = write(tmp_path / "train.jsonl", *lines)
    with pytest.raises(InvalidInputError, match=r"train\.jsonl") as error:
        get_task("gsm8k").load("train", path)
    assert words in str(error.value)


def test_bytes_that_are_not_utf8_are_refused_with_the_line(tmp_path):
    good = json.dumps({"question": "q", "answer": "#### 1"}).encode()
    (tmp_path / "train.jsonl").write_bytes(good + b'\n{"question": "\xff\xfe"}\n')
    with pytest.raises(InvalidInputError, match="line 2: not JSON"):
        get_task("gsm8k").load("train", str(tmp_path))


def test_a_missing_file_mode_or_split_is_refused():
    with pytest.raises(InvalidInputError, match=r"no folder with train\.jsonl"):
        get_task("gsm8k").load("train", "/nowhere")
    with pytest.raises(InvalidInputError, match="allowed are train, test"):
        get_task("gsm8k").load("validation", "/nowhere")
    with pytest.raises(InvalidInputError, match="allowed are strict, lenient"):
        get_task("gsm8k", mode="kind")


def test_the_hub_out_of_reach_says_how_to_use_a_local_copy(monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InvalidInputError, match="--data_path"):
        get_task("gsm8k").load("test")


def test_the_rewards_are_those_of_the_paper():
    correctness, form, tags = get_task("gsm8k").rewards()
    texts = [answered("72"), answered("71"), answered("71") + "!" * 30, "71"]
    columns = {"answer": ["72"] * 4}
    assert correctness(completions=texts, **columns) == [1, 0, 0, 0]
    # wrong answers get 0.1 for the form, less 0.001 for each character outside it, ...
    assert form(completions=texts, **columns) == pytest.approx([0, 0.1, 0.07, 0])
    # ... and 0.025 for each tag
    assert tags(completions=texts, **columns) == pytest.approx([0, 0.1, 0.1, 0])


def test_the_format_is_found_in_linear_time_and_as_the_regular_expression_finds_it():
    slow = re.compile(r"<think>.*</think>[ \n]?<answer>.*</answer>", re.DOTALL)
    parts = ["<think>", "</think>", "<answer>", "</answer>", "\n", "x"]
    for i in range(6**6):
        text = "".join(parts[i // 6**k % 6] for k in range(6))
        match = slow.search(text)
        assert format_span(text) == (match and match.span())
    assert format_span("<think></think>" * 100_000 + "<answer>" * 100_000) is None


#: Completions with tags that are left out, repeated, cut off or out of order.
FORMS = [
    "<think>\n48 + 24\n</think>\n<answer>\n72\n</answer>",
    "\n<think>a</think> <answer>72</answer>\n",
    "<think>a</think>\n<answer>48</answer>\nno\n<think>b</think>\n<answer>72</answer>",
    "<think>The form is <think>, then </think>.</think>\n<answer>72</answer>",
    "<think>a</think><answer><answer>72</answer></answer>",
    "<think>a</think>\n<answer>72</answer> <answer>73</answer>",
    "<think>a</think>\n<answer>72</answer> that is all",
    "<think>a</think>\n\n<answer>72</answer>",
    "<think>a</think>\n<answer>48</answer> wait <answer>72",
    "so: <think>a</think>\n<answer>72</answer>",
    "<answer>72</answer><think>a</think>",
    "<think>a <answer>72</answer>",
    "72",
    "",
]


@pytest.mark.parametrize("text", FORMS)
def test_lenient_mode_has_the_form_and_the_tag_of_the_papers_code(text):
    """By the regular expression and the extraction of utils/data.py at commit 0c453d2."""
    expected = re.match(
        r"^[ \n]?<think>.*</think>[ \n]?<answer>.*</answer>[ \n]?$", text, flags=re.DOTALL
    )
    grade = get_task("gsm8k", mode="lenient").grade(text, {"answer": "72"})
    assert grade.format is (expected is not None)
    assert possible_answers(text)[0] == text.split("<answer>")[-1].split("</answer>")[0].strip()
    strict = get_task("gsm8k").grade(text, {"answer": "72"})
    assert strict.format is (text in FORMS[:2])
