"""What mkdocs does not do itself: formulas as MathML, and links to files of the repository."""

import html
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?:\.\./)+((?:examples|configs)/[^)#]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
TIGHT_LIST = re.compile(r"^(?![*-] |\d+\. )[^\s].*\n((?:[*-]|\d+\.) .*)", re.MULTILINE)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files, config):
    """Files that pages link to, such as examples, become part of the site."""
    for page in list(files.documentation_pages()):
        for path in LINK.findall(Path(page.abs_src_path).read_text(encoding="utf-8")):
            if (ROOT / path).is_file() and path not in files.src_uris:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, **_):
    """What a code host reads otherwise: links out of docs/, text to unfold, lists."""
    if found := TIGHT_LIST.search(FENCED.sub("", markdown)):
        raise PluginError(f"{page.file.src_uri}: no empty line before the list {found[1]!r}")
    up = "../" * page.file.src_uri.count("/")
    markdown = markdown.replace("<details>", '<details markdown="1">')
    return LINK.sub(lambda match: f"]({up}{match[1]})", markdown)


def on_page_content(content, page, **_):
    """Formulas as MathML, which browsers show without a script or a font."""

    def mathml(match):
        display = "block" if match[1] == "div" else "inline"
        latex = html.unescape(match[2]).strip().replace(r"\arg\max", r"\mathrm{argmax}")
        shown = convert(latex, display=display)
        if "\\" in shown:  # a command that the converter does not know, left as it is
            raise PluginError(f"{page.file.src_uri}: this formula can't be shown: {latex}")
        return shown

    return FORMULA.sub(mathml, content)
