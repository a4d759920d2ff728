from fractions import Fraction

import pytest

from podsgrading.math.numbers import MAX_NUMBER, Number, read_number, same_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,080", 1080),
        ("1 080", 1080),
        (r"11,\! 111,\! 111,\! 100", 11111111100),
        (".0000672", Fraction(672, 10**7)),
        (r"6.72\times 10^{-5}", Fraction(672, 10**7)),
        ("3.5 x 10^4", 35000),
        ("1e5", 10**5),
        (r"0.\overline{3}", Fraction(1, 3)),
        # 1.2 + 34/990
        (r"1.2\overline{34}", Fraction(611, 495)),
        (r"\frac12", Fraction(1, 2)),
        (r"\frac9{19}", Fraction(9, 19)),
        (r"1\frac{4}{5}", Fraction(9, 5)),
        ("137 1/2", Fraction(275, 2)),
        ("\u00bd", Fraction(1, 2)),
        ("\uff17\uff12", 72),
        ("\u22125", -5),
        ("-$5", -5),
        ("$-5", -5),
        (r"-\frac{1}{2}", Fraction(-1, 2)),
        ("2 million", 2 * 10**6),
        ("16 - 3 = 13", 13),
        (r"\$18.90", Fraction(189, 10)),
        ("The total is 72 clips.", 72),
    ],
)
def test_a_number_is_read_in_every_notation(text, value):
    number = read_number(text, prose=True)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    "text",
    [
        "5-3",
        "5x",
        "5 or 6",
        "2^5",
        "7\u00b2",
        "not 5",
        "at least 5",
        "more than 5",
        "5 + x",
        "5i",
        r"2\pi",
        r"\sqrt{5}",
        "1.2.3",
        "12:30",
        "5 feet 3 inches",
        "10,08",
        "72 and a half",
        "5/0",
        "x >= 5",
        r"x \ge 5",
        "x=5, y=3",
        "--5",
        "9^9^9^9",
        "2/3x",
        "5 a b",
        "(1,234)",
        "5!x",
        "--",
        "\u0663",
        "1" * (MAX_NUMBER + 1),
        "",
        "  ",
        "$",
        "e5",
        "1e5000",
        "10^{9999}",
        "5 5",
    ],
)
def test_what_is_not_one_number_worked_out_is_none(text):
    assert read_number(text) is None


def test_units_percent_signs_and_bases_are_kept():
    assert read_number(r"15\mbox{ cm}^2") == Number(Fraction(15), unit="centimeter^2")
    assert read_number("864 square inches") == Number(Fraction(864), unit="inch^2")
    assert read_number(r"5.4 \text{ cents}") == Number(Fraction(27, 5), unit="cent")
    assert read_number(r"90^\circ") == Number(Fraction(90), unit="degree")
    assert read_number("50 percent") == Number(Fraction(50), percent=True)
    assert read_number("52_{8}") == Number(Fraction(52), base=8)
    assert read_number("x = 5") == Number(Fraction(5), name="x")
    assert read_number("$18 per day") == Number(Fraction(18), unit="dollar")


def test_a_single_letter_is_a_unit_in_prose_and_a_variable_in_mathematics():
    assert read_number("5 m", prose=True) == Number(Fraction(5), unit="meter")
    assert read_number("5 m") is None
    assert read_number("2k", prose=True) == Number(Fraction(2000))
    assert read_number("2k") is None
    assert read_number(r"5 \text{ m}") == Number(Fraction(5), unit="meter")


def test_a_unit_may_be_left_out_but_not_be_another():
    def same(gold: str, answer: str) -> bool:
        a = read_number(gold)
        b = read_number(answer)
        assert a is not None
        assert b is not None
        return same_number(a, b)

    assert same(r"5\text{ cm}", "5")
    assert same("5", r"5\text{ cm}")
    assert not same(r"5\text{ cm}", r"5\text{ m}")
    assert not same("5 cents", "$5")
    assert same("52_8", "52")
    assert not same("52", "52_8")


def test_percent_is_a_unit_or_a_hundredth_but_never_both_at_once():
    half, fifty = Number(Fraction(1, 2)), Number(Fraction(50))
    fifty_percent = Number(Fraction(50), percent=True)
    half_percent = Number(Fraction(1, 2), percent=True)
    assert same_number(half, fifty_percent)
    assert same_number(fifty, fifty_percent)
    assert same_number(fifty_percent, half)
    assert not same_number(half, half_percent)
    assert not same_number(half_percent, half)
    assert not same_number(half, fifty)
