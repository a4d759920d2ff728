"""What mkdocs does not do itself: MathML, links to files of the repository, llms.txt."""

import html
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?:\.\./)+(examples/[^)#]+|results/[^)#]+\.(?:png|svg))\)")
#: What was measured is no part of the site: its files are named, not linked.
MEASURED = re.compile(r"(?<!!)\[([^]]+)\]\((?:\.\./)+(results(?:/[^)#]*)?)(?:#[^)]*)?\)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
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
    """What a code host reads otherwise: links out of docs/, text to unfold, lists, hidden names."""
    markdown = COMMENT.sub("", markdown)
    if found := TIGHT_LIST.search(FENCED.sub("", markdown)):
        raise PluginError(f"{page.file.src_uri}: no empty line before the list {found[1]!r}")
    markdown = MEASURED.sub(r"\1 (`\2` in the repository)", markdown)
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
        # Not every browser scrolls a formula by itself, so what is around it does.
        return f'<div class="formula">{shown}</div>' if display == "block" else shown

    return FORMULA.sub(mathml, content)


def on_post_build(config):
    """llms.txt: what each page is for, for programs that read sites, and AGENTS.md whole."""
    pages = [next(iter(entry.items())) for entry in config.nav]
    lines = [f"# {config.site_name}", f"> {config.site_description}", "## Pages\n"]
    lines += [f"- [{title}]({path}): {purpose(path)}" for title, path in pages]
    told = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    lines = [
        "\n\n".join(lines[:3]),
        *lines[3:],
        "\n" + re.sub(r"^#", "##", told, flags=re.MULTILINE),
    ]
    site = Path(config.site_dir)
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    for _, path in pages:
        text = COMMENT.sub("", (ROOT / "docs" / path).read_text(encoding="utf-8"))
        (site / path).write_text(text, encoding="utf-8")


def purpose(path):
    """The first sentence of a page."""
    text = (ROOT / "docs" / path).read_text(encoding="utf-8")
    first = " ".join(text.split("\n\n")[1].split())
    return re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", re.split(r"(?<=[.?]) ", first)[0])
