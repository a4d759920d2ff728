import pytest

from podsgrading.extract import (
    MAX_ANSWER,
    answer_phrase,
    answer_tag,
    boxes,
    declarations,
    declared_answer,
    hashes,
    last_boxes,
)


def test_a_box_ends_at_its_own_brace():
    assert declared_answer(r"<answer>\boxed{\boxed{72}}</answer>") == "72"
    assert declared_answer(r"<answer>\boxed{-\boxed{5}}</answer>") == r"-\boxed{5}"
    assert last_boxes(r"\boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert last_boxes(r"\boxed{\{1, \{2\}\}}") == r"\{1, \{2\}\}"
    assert last_boxes(r"\boxed {a_{b_{c}}} \text{ done}") == "a_{b_{c}}"
    assert last_boxes(r"\boxed{\frac{1}{2}") is None


def test_a_box_inside_a_box_belongs_to_it():
    assert [content for _, _, content in boxes(r"\boxed{1 + \boxed{2}}")] == [r"1 + \boxed{2}"]


def test_an_unclosed_box_hides_no_later_one():
    assert last_boxes(r"\boxed{1 and then \boxed{2}") == "2"


def test_an_unclosed_box_around_a_closed_one_hides_nothing():
    assert declared_answer(r"\boxed{\boxed{x}" * 3) == "x"


def test_a_last_box_that_is_cut_off_or_too_long_is_the_answer_that_nobody_knows():
    assert last_boxes(r"\boxed{1} and \boxed{2") is None
    assert declared_answer(r"The answer is 1, \boxed{1}, no: \boxed{\frac{1}{") is None
    assert declared_answer(r"\boxed{1} or \boxed{2. So the answer is 3.") == "3"
    assert declared_answer(rf"\boxed{{1}} or \boxed{{{'2' * (MAX_ANSWER + 1)}}}") is None


def test_neighbouring_boxes_are_one_list_and_others_are_not():
    assert last_boxes(r"$x=\boxed{1}$, $y=\boxed{2}$ and $\boxed{3}$") == "1, 2, 3"
    assert last_boxes(r"\boxed{\frac12}, or $\boxed{0.5}$ inches") == r"\frac12 or 0.5"
    assert last_boxes(r"\boxed{1} is wrong, so \boxed{2}") == "2"
    assert last_boxes("$$\\boxed{5}$$\n\n$\\boxed{5}$") == "5"
    assert last_boxes(r"\boxed{1}, \boxed{2}, \boxed{1}") == "1, 2, 1"


def test_the_last_closed_tag_counts():
    assert answer_tag("<answer>1</answer><answer>2</answer><answer>3") == "2"
    assert answer_tag("</answer><answer>") is None
    assert answer_tag("<answer></answer>") == ""


def test_what_follows_the_first_closing_tag_is_no_answer():
    assert answer_tag("<answer>5</answer> I am sure. </answer>") == "5"
    assert answer_tag("<answer>5\n</answer></answer>\n</answer>") == "5"
    assert answer_tag("<answer>4</answer> or <answer>5</answer> so 6</answer>") == "5"
    assert answer_tag("</answer> <answer>5</answer>") == "5"
    assert answer_tag("<answer>4 <answer>5</answer>") == "5"


def test_an_empty_tag_is_no_answer_even_beside_a_box():
    assert declared_answer(r"\boxed{5} <answer></answer>") is None


def test_reasoning_is_not_searched_for_the_answer():
    assert declared_answer(r"<think>the answer is 4, \boxed{4}</think> so") is None
    assert declared_answer(r"<think>\boxed{4}</think> so \boxed{5}") == "5"
    assert declared_answer("<think>is it <answer>12</answer>? no</think><answer>13") is None
    assert declared_answer(r"<think>form: <answer>x</answer></think> So \boxed{8}") == "8"
    assert declared_answer(r"it is \boxed{4} hm</think> so \boxed{5}") == "5"
    assert declared_answer("<answer>5</answer> <think>or <answer>6</answer>") == "5"
    assert answer_tag("<think>is it <answer>12</answer>?</think>") is None


def test_hashes_and_phrases_declare_an_answer():
    assert hashes("1 + 1\n#### 2\n") == "2"
    assert answer_phrase("Answer: 5 apples.\n") == "5 apples"
    assert answer_phrase("the answer is 3.5. I am sure.") == "3.5"
    assert answer_phrase("I have no answer") is None
    assert answer_phrase("The answer is 7.\n\nLet me verify the answer:\n3 + 5 - 1") == "7"
    assert answer_phrase("Here is how I found my answer:\n1. Add") is None
    assert answer_phrase("Answer:\n$$\n5\n$$") == "5"
    assert answer_phrase("**Final Answer:**\n\n$72$\nDone.") == "$72$"
    assert answer_phrase("The answer is $5! = 120$! Yes.") == "$5! = 120$"


@pytest.mark.parametrize("end", [" ", "\n", "\n\nSo: "])
@pytest.mark.parametrize("answer", ["8", "$\\frac12$", "D", "June 20", "Alice", "obtuse"])
@pytest.mark.parametrize(
    "remark",
    [
        "I checked, and this answer is correct.",
        "No other answer is possible.",
        "The answer is reasonable.",
        "This answer is in dollars.",
        "The answer is in simplest form.",
        "My answer is in square meters",
        "The answer is a reasonable one, since 3 + 5 = 8.",
        "Therefore, the answer is indeed correct.",
        "The answer is correct and complete! No other answer is valid.",
        "This answer is right because they have 8 apples.",
    ],
)
def test_a_remark_about_an_answer_is_not_read_as_the_answer(answer, end, remark):
    assert answer_phrase(f"So the answer is {answer}.{end}{remark}") == answer
    assert declared_answer(f"Answer: {answer}\n{remark}\n\nDone.") == answer


@pytest.mark.parametrize(
    "answer",
    [
        "9",
        "nine",
        "$x$",
        "Bob",
        "June 20",
        "in the north",
        "in fact nine",
        "in fact snakes",
        "in total nine",
        "a right triangle",
        "right: 9",
        "correct, but only if it is 9",
        "correct and is 9",
        "impossible",
        "wrong",
        "unknown",
        "not reasonable",
        "right or 9",
    ],
)
def test_a_later_answer_or_doubt_is_no_remark(answer):
    for end in (" ", "\n"):
        assert answer_phrase(f"The answer is 8.{end}The answer is {answer}.") == answer


@pytest.mark.parametrize("answer", ["correct", "valid", "possible", "right", "in dollars"])
def test_the_words_of_remarks_are_an_answer_where_none_was_stated(answer):
    assert answer_phrase(f"The answer is {answer}.") == answer
    assert answer_phrase(f"I know the answer. The answer is {answer}.") == answer
    assert answer_phrase(f"The answer is 8.\nAnswer: {answer}") == answer


@pytest.mark.parametrize("answer", ["valid", "possible", "correct"])
def test_an_answer_that_turns_into_its_contrary_is_no_remark(answer):
    contrary = {"valid": "invalid", "possible": "impossible", "correct": "not correct"}[answer]
    for end in (" ", "\n"):
        assert answer_phrase(f"The answer is {contrary}.{end}The answer is {answer}.") == answer
        assert answer_phrase(f"The answer is {answer}.{end}The answer is {contrary}.") == contrary


@pytest.mark.parametrize("part", ["answer is correct", "answer is right and so ", "answer is in a"])
@pytest.mark.parametrize("end", ["", ". ", "\n"])
def test_a_megabyte_of_remarks_is_read_in_linear_time(part, end):
    remarks = f"{part}{end}" * (900_000 // len(f"{part}{end}"))
    assert answer_phrase(f"The answer is 8.\n{remarks}\nThe answer is 9.\n") == "9"
    assert answer_phrase(f"The answer is 9. {remarks}\nThe answer is correct.")


def test_an_answer_too_long_to_be_one_is_none():
    assert declared_answer(f"<answer>{'1' * (MAX_ANSWER + 1)}</answer>") is None


@pytest.mark.parametrize(
    "part", [r"\boxed{", "<answer>", "answer is ", "#### ", "{", "\\", "answer", r"\boxed "]
)
def test_a_megabyte_of_openings_is_read_in_linear_time(part):
    # A quadratic scan of this would take minutes; the suite would time out.
    assert declared_answer(part * (1_000_000 // len(part))) is None or part in (
        "answer is ",
        "#### ",
    )


@pytest.mark.parametrize(
    "part",
    ["No, ", "Wait. ", "Actually no. ", "no\n", "the answer ", "(", "{", "$", r"\boxed ", "? "],
)
def test_what_follows_an_answer_is_read_in_linear_time(part):
    assert declared_answer(rf"\boxed{{5}} {part * (900_000 // len(part))}") == "5"


def test_a_box_without_braces_holds_one_value():
    assert last_boxes(r"so $\boxed 7$.") == "7"
    assert last_boxes(r"\boxed\frac 12 or so") == r"\frac 12"
    assert last_boxes(r"\boxed -1,000.") == "-1,000"
    assert last_boxes(r"write it in \boxed form") is None
    assert last_boxes(r"\boxed \boxed 7") == "7"
    assert last_boxes(r"write it in \boxed{5") is None


def test_a_choice_that_is_taken_back_gives_way_to_the_one_in_its_place():
    assert declarations(r"\boxed{D}. Actually no, the answer is C.") == ["C"]
    assert declarations(r"\boxed{D}. Wait, that is wrong.") == []
    assert declarations(r"\boxed{D}. Wait, let me check. Yes.") == ["D"]


def test_a_retraction_is_about_the_last_answer_only():
    assert declared_answer(r"\boxed{7}. Actually no, the answer is 8. So \boxed{9}.") == "9"
    assert declared_answer("<think>7. No, the answer is 8.</think> <answer>7</answer>") == "7"


def test_an_answer_of_900_000_digits_is_compared_with_no_sum():
    assert declared_answer(f"#### {'7' * 900_000}\n{'No, it is 3 + 4. ' * 1_000}") == "3 + 4"


def test_what_explains_an_answer_does_not_replace_it():
    assert declared_answer(r"\boxed{8}. No, nothing else is paid. It is 3 + 5.") == "8"
    assert declared_answer(r"\boxed{8}. Actually, that is 4 + 4.") == "8"
    assert declared_answer("<answer>8</answer> Let me double-check: 2*4 = 8, so 4 is right.") == "8"
    assert declarations(r"\boxed{8}. No, nothing else is paid. It is 3 + 5.") == ["8"]
