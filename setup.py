"""What pyproject.toml can't say: the README for a package index, where no file lies beside it."""

import re
from pathlib import Path

from setuptools import setup


def for_an_index(text: str) -> str:
    """Images of the repository are left out, and links to its files become their words."""
    text = re.sub(r"!\[[^]]*\]\((?![a-z]+:)[^)]*\)\n*|<img src=\"(?![a-z]+:)[^>]*>\n*", "", text)
    return re.sub(r"\[([^]]+)\]\((?![a-z]+:)[^)]*\)", r"\1", text)


if __name__ in ("__main__", "__mp_main__"):
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    setup(long_description=for_an_index(readme), long_description_content_type="text/markdown")
