"""What mkdocs does not do itself: formulas as MathML, and links to files of the repository."""

import html
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?:\.\./)+((?:examples|configs)/[^)#]+)\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files, config):
    """Files that pages link to, such as examples, become part of the site."""
    for page in list(files.documentation_pages()):
        for path in LINK.findall(Path(page.abs_src_path).read_text(encoding="utf-8")):
            if (ROOT / path).is_file() and path not in files.src_uris:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, **_):
    """On a code host such a link leaves docs/; on the site the file lies inside."""
    up = "../" * page.file.src_uri.count("/")
    return LINK.sub(lambda match: f"]({up}{match[1]})", markdown)


def on_page_content(content, **_):
    """Formulas as MathML, which browsers show without a script or a font."""

    def mathml(match):
        display = "block" if match[1] == "div" else "inline"
        return convert(html.unescape(match[2]).strip(), display=display)

    return FORMULA.sub(mathml, content)
