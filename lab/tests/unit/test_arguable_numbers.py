# ruff: noqa: RUF001  (look-alike characters are among what is tested)
"""Numbers that a user would argue about: GSM8K and arithmetic, and where an answer is declared."""

import pytest

from podslab.tasks import get_task
from tests.support.arguable import answered, read_table

RIGHT = r"""
72 :: 72 clips in total // $72 // 72. // 72.0 // 72.000 // +72 // 072 // **72** //
    The answer is 72 // Answer: 72 // Natalia sold 72 clips // 72 clips altogether. // \(72\) //
    $$72$$ // \text{72} // \mathbf{72} // = 72 // 48 + 24 = 72 // 48+24=72 clips // 1.5 * 48 = 72 //
    total = 72 // Total clips: 72 // 72 USD // 72; // "72" // '72' // 72/1 // 144/2 //
    \frac{144}{2} // 7.2 \times 10^1 // 7.2e1 // 72 clips! // `72` // 72 \text{ clips} //
    72 times // 72 square feet // 72 for two people // sixth term: 72 // Number of times: 72 //
    \boxed{72 \text{ clips}} // \boxed{72}. // So, the answer is \boxed{72} // #### 72 // x=72 //
    $72 dollars
5 :: 5 m // 5 meters // 5kg // 5 km/h // 5 mph // $5.00 // 5 dollars // €5 // 5 apples //
    5 more apples // 5 times // 5 pm // 5 a day // 5 per day // 5 cm^2 // 5 m² // 5 sq ft // 5% //
    the number 5 // n = 5 // \$5 // $5/hour // 5 hours
0.5 :: 1/2 // 50% // .5 // 0.50 // \frac12 // ½ // \frac{1}{2} // 0.5 miles // 5e-1 // 2/4
1,250 :: 1250 // 1,250.00 // $1,250 // 1 250 // 1.25 thousand // 1.25k // 1250 dollars //
    1.25 \times 10^3 // 1.25e3 // 1,250 people // 2500/2
-3 :: -3 // −3 // –3 // - 3 // (-3) // -3.0 // -3 degrees // -$3 // $-3 // -6/2 // \frac{-6}{2} //
    -\frac{6}{2} // x = -3
25% :: 25% // 25 percent // 0.25 // 1/4 // 25 // 25 \% // 25.0%
1,080 :: 1080 // 1,080 // $1,080 // 1080.00 dollars per day // \boxed{1080} // $\boxed{1{,}080}$ //
    x = 1080 // 2160/2 // 1 080 // **1080** // The total is 1080. // \$1,\!080 // 1.08k
3 :: 3 times // 3 times a week // 3 dollars/day // 3 more // 3 m
72 :: A total of 72 clips // I think 72
"""
WRONG = r"""
72 :: 7 // 2 // 720 // 7 2 // 71.999 // 72.01 // -72 // (72, 73) // 72, 73 // 72 and 73 // 72-73 //
    72 to 73 // 72/2 // 72*1 // about 72 or 73 // 72^2 // \sqrt{72} // 72i // 72\pi //
    between 71 and 73 // <72 // >72 // ≥ 72 // ≤72 // x < 72 // 72 < x // ≠72 //
    72 is not the answer // It isn't 72 // seventy two // 72 thousand // 72k // 72 million //
    72 hundred // 7² // 72 minus 1 // 72 + 1 // 72 x 2 // 3 x 24 // half of 72 // 72 dozen //
    72 dozens // 72 hundreds // 72 thousands // 72 millions // 48 // 0.72 // 72:00 // 7:2 //
    72°C and 3 // 0x48 // 1001000 // none // NaN // inf // [72,73] // {72,73} // 72;73 //
    twice 72 // 72 each, 144 total // 72 clips and 3 pens // 48 in April and 24 in May //
    six times 72 // 72 hundredths // square of 72 // cube of 72 // 72 each, times two //
    72 times two // three times as many as 72 // a tenth of 72 // 72 eighths // 72 doubled //
    twenty 72 // 72 and one // 72 point one
5 :: 5 hours 30 minutes // 5'6" // five // 5/6 // 5 1/2 // 5.5 // 55 // 5- // 5 factorial // 5x //
    Player 5 has 6 // 5 out of 6 // 5 of 6 // 5:6 // 5 in 6 // 5 or more // 5+ // at least five //
    up to 5 // less than 5 // over 5 // 5 squared // a 5 and a 6 // -5 // − 5 // (−5) // minus 5 //
    negative 5 // --5 // 5e1 // 5^2 // log 5 // 1/5
0.5 :: 0.5% // 50 // 5 // 0,5 // 1/2% // 0.05 // -0.5 // 1 / 2 / 1 // 2
1,250 :: 1.250 // 125 // 12,50 // 1,25 // 1,2500 // 1,250,000 // 1,250 + 1 // 1250/2 // 250 // 1 //
    1,250 1,251 // -1,250
-3 :: 3 // +3 // --3 // 3- // -(-3) // - -3 // ±3 // \pm 3 // |-3|
25% :: 2.5% // 25/10 // 2500 // 0.25% // -25% // 75%
1,080 :: 1081 // -1080 // 1080 or 1081 // not 1080 // at least 1080 // 1080^2 // 1080² // 1080x //
    one // 1080/0 // 10,80 // 1080 thousand // 1080.5 // 540 * 2 // 1080 and a half
"""
ODD_RIGHT = [("72", "72\n")]
ODD_WRONG = [("72", "72\n73"), ("72", "71\n72")]


def verdict(name, gold, completion):
    return get_task(name).grade(completion, {"answer": gold}).answer


@pytest.mark.parametrize(("gold", "answer"), [*read_table(RIGHT), *ODD_RIGHT])
def test_a_number_that_a_user_would_take_is_right(gold, answer):
    assert verdict("gsm8k", gold, answered(answer)) is True


@pytest.mark.parametrize(("gold", "answer"), [*read_table(WRONG), *ODD_WRONG])
def test_a_number_that_a_user_would_refuse_is_wrong(gold, answer):
    assert verdict("gsm8k", gold, answered(answer)) is False


@pytest.mark.parametrize(
    "answer", ["132", "+132", "0132", " 132 ", "132\n", "\t132", "132 ", "000000132", "132\r\n"]
)
def test_a_sum_in_the_asked_form_is_right(answer):
    assert get_task("arithmetic").grade(answered(answer), {"answer": "132"}) == (True, True)


@pytest.mark.parametrize(
    "answer",
    [
        "132.",
        "132.0",
        "1 32",
        "13 2",
        "1,32",
        "-132",
        "47+85=132",
        "47+85",
        "= 132",
        "one hundred thirty-two",
        "131",
        "133",
        "1320",
        "32",
        "０１３２",
        "१३२",
        "132 132",
        "132/1",
        "1.32e2",
        "0x84",
        "132\x00",
        "1_3_2",
        "132 or 133",
        "--132",
        "+-132",
        "+ 132",
        "$132$",
        "\\boxed{132}",
        "**132**",
        "132!",
        "(132)",
        "132e0",
        "132,",
        "(a)132",
        "²",
        "132²",
        "١٣٢",
        "9" * 10_000,
    ],
)
def test_a_sum_that_is_another_or_in_another_form_is_wrong(answer):
    assert get_task("arithmetic").grade(answered(answer), {"answer": "132"}) == (False, True)


def test_no_sum_is_wrong_and_not_in_the_form():
    assert get_task("arithmetic").grade(answered(""), {"answer": "132"}) == (False, False)


@pytest.mark.parametrize("task", ["gsm8k", "math"])
@pytest.mark.parametrize(
    "completion",
    [
        "<think>x</think>\n\nThe answer is \\boxed{72}.",
        "<answer>72</answer><answer>",
        "<answer>72</answer> Actually 73.",
        "The answer is 72. <think>let me check",
        "#### 72",
        "a\n#### 72\n",
        "#### 71\n#### 72",
        "#### 72 clips",
        "\\boxed{72}",
        "$\\boxed{72}$ clips",
        "\\fbox{72}",
        "**Answer: 72**",
        "Final Answer: 72",
        "Answer: **72**",
        "the answer is: 72 clips.",
        "<answer>the answer is 72</answer>",
        "<answer>$72$</answer>",
        "<answer>\n\n72\n\n</answer>",
        "I got \\boxed{72}. Let me check: 48+24. Yes.",
        "\\boxed{x=72}",
        "\\boxed{\\text{72 clips}}",
        "<answer>71</answer> no, <answer>72</answer>",
        "so \\boxed{71}, no, \\boxed{72}.",
        "48 + 24 = 72\n#### 72",
        "The answer is 72.",
    ],
)
def test_an_answer_that_is_declared_is_found(task, completion):
    assert verdict(task, "72", completion) is True


@pytest.mark.parametrize("task", ["gsm8k", "math"])
@pytest.mark.parametrize(
    "completion",
    [
        "<answer>72",
        "<answer>I think 72, but it may be 73</answer>",
        "<answer>\\boxed{71} \\boxed{72}</answer>",
        "<think>72</think>",
        "<think>The answer is 72",
        "<think>so \\boxed{72} hmm",
        "<think>#### 72",
        "<think>a</think> 72",
        "72",
        "x #### 72",
        "\\boxed{72",
        "\\boxed{}",
        "The answer isn't 72",
        "The answer is not 72",
        "The answer is unknown. 72",
        "The answer: 72\n\nThe answer: 73",
        "<answer></answer>",
        "<answer> </answer>The answer is 72",
        "<answer>72</answer>\n<answer></answer>",
        "</answer>72<answer>",
        "<answer>72</answer",
        "<ANSWER>72</ANSWER>",
        "\\boxed{72}, not \\boxed{73}",
        "either \\boxed{72} or \\boxed{73}",
        "<answer>72</answer> no, <answer>71</answer>",
        "<think>\\boxed{72}</think><answer>71</answer>",
        "so \\boxed{71} or \\boxed{72}",
        "The answer is 72. Or is the answer 71?",
    ],
)
def test_what_is_not_declared_or_is_taken_back_is_no_answer(task, completion):
    assert verdict(task, "72", completion) is False
