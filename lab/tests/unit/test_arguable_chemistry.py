# ruff: noqa: RUF001  (look-alike characters are among what is tested)
"""Options and equations that a user would argue about."""

import pytest

from podslab.tasks import get_task
from tests.support.arguable import answered, read_table

#: gold letter: the options.
CHOICES = {
    "B": ["1.5 mol", "2.5 mol", "3 mol", "It cannot be determined"],
    "D": ["1.5 mol", "2.5 mol", "3 mol", "It cannot be determined"],
    "A": ["A", "B", "AB", "O"],
}
RIGHT_CHOICE = r"""
B :: B // b // (B) // B. // B) // [B] // **B** // **B.** // B: 2.5 mol // B. 2.5 mol //
    B) 2.5 mol // (B) 2.5 mol // 2.5 mol // Option B // option b // Choice B // The answer is B //
    the correct answer is (B) // The correct option is B. // Answer: B // $B$ // \boxed{B} //
    \text{B} // \textbf{(B)} // \boxed{\text{B}} // The final answer is B // `B` // "B" //
    B - 2.5 mol // Letter B // The answer is B) 2.5 mol // B, 2.5 mol // 2.5 mol. // 'B' //
    The best answer is B // Correct answer: B // The right choice is B
D :: D // It cannot be determined // D) It cannot be determined // (d)
A :: A // (A)
"""
WRONG_CHOICE = r"""
B :: A // C // D // E // AB // A, B // A and B // A or B // B or C // B, C // B C // BB // B/C //
    not B // B is wrong // anything but B // Neither // None of the above // B) 1.5 mol //
    A) 2.5 mol // 2.5 // 1.5 mol // ? // 2 // I choose // all // Between A and B // ABCD //
    Banana // Bold // Be // B+ // B-C // B2 // 8 // β // В // not A // The answer is not B // A B //
    B then C // B. 2.5 mol and C. 3 mol // Boron // All of them
D :: cannot // I don't know // It can be determined // A // No
A :: B // AB // C) AB // Apple // a lot
"""
RIGHT_EQUATION = r"""
2H2 + O2 = 2H2O :: 2H2+O2=2H2O // 2 H2 + O2 → 2 H2O // 2H_2 + O_2 -> 2H_2O // 2H2 + O2 --> 2H2O //
    2H2 + 1O2 = 2H2O // 2H2(g)+O2(g)=2H2O(l) // $2H_2 + O_2 \to 2H_2O$ //
    $$2\mathrm{H}_2 + \mathrm{O}_2 \rightarrow 2\mathrm{H}_2\mathrm{O}$$ // \ce{2H2 + O2 -> 2H2O} //
    6H2+3O2=6H2O // O2+2H2=2H2O // 2H₂ + O₂ ⟶ 2H₂O // 2H2 + O2 ⇒ 2H2O // **2H2 + O2 = 2H2O** //
    `2H2 + O2 = 2H2O` // 2 \text{H}_2 + \text{O}_2 \rightarrow 2 \text{H}_2\text{O} //
    2H2 + O2 \longrightarrow 2H2O // \boxed{2H2 + O2 = 2H2O} // 2H2 + O2 ⇌ 2H2O //
    2H2 + O2 == 2H2O // 2H2 + O2 => 2H2O // 2H2  +  O2  =  2H2O // 2H_{2} + O_{2} = 2H_{2}O //
    2H2 + O2 = 2H2O. // \[2H_2 + O_2 \rightarrow 2H_2O\] // \(2H_2 + O_2 \rightarrow 2H_2O\) //
    The balanced equation is 2H2 + O2 = 2H2O // Balanced: 2H2 + O2 -> 2H2O //
    $2H_{2}(g) + O_{2}(g) \rightarrow 2H_{2}O(l)$ // 2H₂ + O₂ → 2H₂O // O2 + 2 H2 = 2 H2O //
    4H2 + 2O2 = 4H2O // 2H2↑ + O2↑ = 2H2O // 2H_2\uparrow + O_2\uparrow \to 2H_2O
Al + 3Fe{3+} = Al{3+} + 3Fe{2+} :: Al + 3Fe^{3+} = Al^{3+} + 3Fe^{2+} //
    Al + 3Fe^3+ = Al^3+ + 3Fe^2+ // Al + 3Fe³⁺ → Al³⁺ + 3Fe²⁺ // 3Fe{3+} + Al = 3Fe{2+} + Al{3+} //
    Al(s) + 3Fe^{3+}(aq) -> Al^{3+}(aq) + 3Fe^{2+}(aq) //
    $\mathrm{Al} + 3\mathrm{Fe}^{3+} \rightarrow \mathrm{Al}^{3+} + 3\mathrm{Fe}^{2+}$ //
    \ce{Al + 3Fe^3+ -> Al^3+ + 3Fe^2+} // \ce{Al + 3Fe^{3+} -> Al^{3+} + 3Fe^{2+}} //
    2Al+6Fe{3+}=2Al{3+}+6Fe{2+} // Al + 3 Fe{3+} = Al{3+} + 3 Fe{2+}
"""
WRONG_EQUATION = r"""
2H2 + O2 = 2H2O :: H2 + O2 = H2O // 2H2 + O2 = H2O // H2 + O2 = 2H2O // 2H2O = 2H2 + O2 //
    4H2 + O2 = 2H2O // 2H2 + O2 = 2OH2x // 2H2 + O2 = H4O2 // 2H2 + 2O = 2H2O // H4 + O2 = 2H2O //
    2H2 + O2 + N2 = 2H2O + N2 // 2H2 + O2 = 2H2O + 0N2 // 2h2 + o2 = 2h2o // 2H2 O2 2H2O // 2,1,2 //
    2 1 2 // 2H2 + O2 ≠ 2H2O // H2 + 0.5O2 = H2O // 1.5H2 // 2.0H2 + O2 = 2.0H2O //
    ½O2 + H2 = H2O // 2H2 + O2 // = 2H2O // 2H2 + O2 = // 4 = 4 // 0 = 0 //
    2H2 + O2 = 2H2O or H2 = H2 // 2H2 + O2 = 2H2O; no // unbalanced // 2D2 + O2 = 2D2O //
    2H2 + O3 = 2H2O // 1H2+1O2=1H2O2 // 2H2{+} + O2 = 2H2O{+} // 2H2 + O2 = 2HO2 //
    xH2 + yO2 = xH2O // 2H2 + O2 = 2H2O + energy // e = e // H2+O2= // -2H2 + -O2 = -2H2O //
    2(H2) + O2 = 2H2O! // 2H2 + O2 = 2H2O2 // 0H2 + 0O2 = 0H2O // = // H2 // H2 + 1/2O2 = H2O //
    -2H2 - O2 = -2H2O // 4H + 2O = 2H2O // 2H2 + O2 = 2H2O = 2H2O // H2999999999 + O2 = H2O
Al + 3Fe{3+} = Al{3+} + 3Fe{2+} :: Al + Fe{3+} = Al{3+} + Fe{2+} // Al + 3Fe = Al + 3Fe //
    Al + 3Fe{2+} = Al{3+} + 3Fe{3+} // Al + 3Fe{+3} = Al{+3} + 3Fe{+1} // Al + Fe = Al + Fe //
    2Al + 3Fe{3+} = 2Al{3+} + 3Fe{2+} // Al + 3Fe3+ = Al3+ + 2Fe2+
"""


def verdict(gold, answer):
    row = {"question": "", "answer": gold, "choices": CHOICES.get(gold, [])}
    return get_task("sciknoweval").grade(answered(answer), row).answer


@pytest.mark.parametrize(
    ("gold", "answer"),
    [*read_table(RIGHT_CHOICE), *[("B", " B "), ("B", "B\n2.5 mol"), ("B", "B.\n")]],
)
def test_an_option_that_is_picked_however_it_is_said_is_right(gold, answer):
    assert verdict(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), [*read_table(WRONG_CHOICE), *[("B", "")]])
def test_another_option_several_or_none_is_wrong(gold, answer):
    assert verdict(gold, answer) is False


@pytest.mark.parametrize(("gold", "answer"), read_table(RIGHT_EQUATION))
def test_a_balanced_equation_is_right_in_every_notation(gold, answer):
    assert verdict(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), read_table(WRONG_EQUATION))
def test_an_equation_of_other_substances_or_out_of_balance_is_wrong(gold, answer):
    assert verdict(gold, answer) is False
