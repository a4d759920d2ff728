"""Docstrings as the site's Markdown: examples as code, formulas between dollar signs."""

import re
import textwrap

import griffe

EXAMPLE = re.compile(r"\n\n(>>> .*?)(?=\n\n(?!>>> )|\Z)", re.DOTALL)
FORMULA = re.compile(r"^\.\. math::(.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            text = FORMULA.sub(lambda m: f"$$\n{' '.join(m[1].split())}\n$$", obj.docstring.value)
            obj.docstring.value = EXAMPLE.sub(
                lambda m: f"\n\nExamples:\n{textwrap.indent(m[1], '    ')}", text
            )
