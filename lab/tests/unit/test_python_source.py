import pytest

from podslab.grading.python_source import fingerprint

PROGRAM = "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    "same",
    [
        "def f(x): return x+1",
        "# a note\ndef f(x):\n\n        return (x + 1)  # another\n",
        "def f(x):\r\n    return x + 1",
        "def f(\n    x,\n):\n    return x + 0x1",
    ],
)
def test_comments_and_layout_make_no_difference(same):
    assert fingerprint(same) == fingerprint(PROGRAM) != ""


@pytest.mark.parametrize(
    "other",
    [
        "def f(x):\n    return x + 1.0\n",
        "def f(x):\n    return x + True\n",
        "def f(y):\n    return y + 1\n",
        "def f(x):\n    'said'\n    return x + 1\n",
        "def f(x):\nreturn x + 1\n",
        "def f(x):\n    return x - -1\n",
        "async def f(x):\n    return x + 1\n",
        "",
    ],
)
def test_any_other_difference_does(other):
    assert fingerprint(other) != fingerprint(PROGRAM)


@pytest.mark.parametrize(
    "word", ["b''", "u'é'", "'e\u0301'", "'\\ud800'", "-0.0", "0.0", "1j", "..."]
)
def test_constants_that_differ_are_told_apart(word):
    words = ["''", "'é'", "'e'", "'?'", "0", "1", "None", word]
    assert len({fingerprint(f"x = {w}") for w in words}) == len(words)


@pytest.mark.parametrize(
    "text",
    ["def f(x)", "x = ", "\x00", "x = '\ud800'", "  x\n y", "print 1", "1" * 5000, "I think"],
)
def test_what_is_not_python_has_no_fingerprint(text):
    assert fingerprint(text) == ""


@pytest.mark.parametrize(
    "text",
    ["x = 0x" + "f" * 20_000, "+".join("1" * 20_000), "-" * 3_000 + "1", "f" + "()" * 20_000],
)
def test_python_that_is_too_much_for_the_parser_or_for_us_is_left_to_the_sandbox(text):
    assert fingerprint(text) not in ("", fingerprint(text + "\n"))
