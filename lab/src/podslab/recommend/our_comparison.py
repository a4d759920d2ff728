"""What the project's own comparison advises, for a terminal.

The page beside this file is written by `python -m benchmarks.pages` from the comparison's raw
files, as the same block of docs/methods.md is ("Which method?").
"""

import re
import textwrap
from pathlib import Path

_PAGE = Path(__file__).with_name("advice.md")
#: What marks a generated block, and bold words.
_MARKUP = re.compile(r"<!--.*?-->\n|\*\*")


def our_advice_in_words(width: int = 100) -> str:
    """The advice with its conditions, in lines of at most so many characters."""
    lines = []
    for line in _MARKUP.sub("", _PAGE.read_text(encoding="utf-8")).splitlines():
        if line:
            hanging = "  " if line.startswith("* ") else ""
            lines += textwrap.wrap(line, width, subsequent_indent=hanging)
    return "\n".join(lines)
