"""What the pages and --help name exists: commands, targets, flags, configs, files and imports."""

import ast
import importlib
import itertools
import re
import runpy
import shlex
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("podslab")

import podsrl
from podsrl.cli import find_verbs
from podsrl.cli.parser import VerbParser
from podsrl.selection import select_groups

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGES += sorted((ROOT / "contrib").rglob("README.md"))
PAGES += [ROOT / "results" / name for name in ("README.md", "log.md", "audit.md", "published.md")]
PAGES.remove(ROOT / "CHANGELOG.md")  # history: it names what was
#: Pages whose links are followed; that for TRL's own documentation links to its neighbours there.
LINKED = sorted({*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "results").rglob("*.md")})
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
SESSIONS = set(
    re.findall(r"^def ([a-z_]+)\(", (ROOT / "noxfile.py").read_text("utf-8"), re.MULTILINE)
)
VERBS = find_verbs()
SOURCES = (ROOT / "src", ROOT / "lab" / "src")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OURS = (
    "tests",
    "src",
    "lab",
    "benchmarks",
    "docs",
    "examples",
    "requirements",
    "results",
)


@cache
def parser_of(verb: str) -> VerbParser:
    parser = VerbParser(prog=f"pods {verb}")
    importlib.import_module(VERBS[verb]).configure(parser)
    return parser


@cache
def known_flags(verb: str) -> frozenset[str]:
    flags = {"--help", *parser_of(verb).options()}
    if getattr(importlib.import_module(VERBS[verb]), "TAKES_FIELDS", False):
        from trl import ModelConfig

        from podslab.training.spec import RunArguments
        from podsrl.trl import PODSConfig

        flags |= {f"--{f.name}" for t in (RunArguments, PODSConfig, ModelConfig) for f in fields(t)}
    return frozenset(flags)


def problems_of_pods(words: list[str]) -> list[str]:
    """What is wrong with the words after `pods`."""
    if not words or words[0].startswith("--") or words[0].isupper() or words[0] == "...":
        return []  # `pods`, `pods --help`, `pods VERB`, `pods ...`

    # What stands after "--" starts the user's script.
    verb, *rest = itertools.takewhile(lambda word: word != "--", words)
    if verb not in VERBS:
        return [f"no such verb: {verb}"]

    flags = [word.partition("=")[0] for word in rest if re.match(r"--\w", word)]
    found = [f"no such flag of pods {verb}: {f}" for f in flags if f not in known_flags(verb)]
    for flag, value in itertools.pairwise(rest):
        if flag == "--config" and re.fullmatch(r"[a-z0-9/-]+", value):
            shipped = ROOT / "lab" / "src" / "podslab" / "configs" / f"{value}.yaml"
            found += [] if shipped.is_file() else [f"no such config: {value}"]
    return found


def problems_of_make(words: list[str]) -> list[str]:
    found = []
    for word in words:
        name, is_variable, _ = word.partition("=")
        if is_variable:
            found += [] if f"$({name})" in MAKEFILE else [f"no variable of the Makefile: {name}"]
        else:
            found += [] if name in TARGETS else [f"no such target: {name}"]
    return found


def problems_of_nox(words: list[str]) -> list[str]:
    named = list(itertools.takewhile(lambda word: not word.startswith("-"), words[1:]))
    return [f"no such session: {name}" for name in named if name not in SESSIONS]


def problems_of_python(words: list[str]) -> list[str]:
    """Of `python -m MODULE --flag` and `python FILE --flag`, where they are ours."""
    where = words[1].replace(".", "/") if words[:1] == ["-m"] else words[0] if words else ""
    if where == "podsrl/cli":
        return problems_of_pods(words[2:])
    if where == "pytest":
        return problems_of_pytest(words[2:])
    if not where.startswith(("benchmarks", "docs/", "examples/", "tests/")):
        return []

    files = [
        ROOT / where.removesuffix(".py") / "__main__.py",
        ROOT / f"{where.removesuffix('.py')}.py",
    ]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        return [f"no such script: {where}"]

    code = file.read_text(encoding="utf-8")
    flags = [word for word in words if re.match(r"--\w", word)]
    return [f"no such flag of {where}: {flag}" for flag in flags if f'"{flag}"' not in code]


def problems_of_pytest(words: list[str]) -> list[str]:
    found = []
    for i, word in enumerate(words):
        if word.startswith(OURS):
            found += [] if (ROOT / word).exists() else [f"no such file: {word}"]
        if i and words[i - 1] == "-k":
            code = "\n".join(code_of_tests(words[:i]))
            if not re.search(rf"def test_\w*{word}", code):
                found.append(f"-k {word} finds no test")
    return found


def code_of_tests(words: list[str]) -> list[str]:
    """The text of the files and folders of tests among these words."""
    texts = []
    for word in words:
        if word.startswith("tests") and (ROOT / word).is_file():
            texts.append((ROOT / word).read_text(encoding="utf-8"))
        elif word.startswith("tests"):
            texts += [path.read_text(encoding="utf-8") for path in (ROOT / word).rglob("*.py")]
    return texts


def problems_of_bash(words: list[str]) -> list[str]:
    missing = [word for word in words if word.startswith(OURS) and not (ROOT / word).is_file()]
    return [f"no such file: {word}" for word in missing]


def problems_of_pip(words: list[str]) -> list[str]:
    """Of the extras that are installed, such as the trl of '.[trl]'."""
    found = []
    for folder, names in ((".", r"\.|podsrl"), ("lab", r"(?:\./)?lab|podsrl-lab")):
        text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
        known = tomllib.loads(text)["project"]["optional-dependencies"]
        named = [re.fullmatch(rf"(?:{names})\[([\w,]+)\]", word) for word in words]
        extras = [extra for match in named if match for extra in match[1].split(",")]
        found += [f"no such extra: {extra}" for extra in extras if extra not in known]
    return found


CHECKS = {
    "bash": problems_of_bash,
    "pip": problems_of_pip,
    "pods": problems_of_pods,
    "make": problems_of_make,
    "nox": problems_of_nox,
    "python": problems_of_python,
    "pytest": problems_of_pytest,
}


def problems_of(command: str) -> list[str]:
    """What is wrong with a command line of ours; nothing is, with those of others."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return []
    if words[:2] == ["accelerate", "launch"] and "-m" in words:
        words = ["python", *words[words.index("-m") :]]
    if not words or words[0] not in CHECKS:
        return []
    return [f"`{command.strip()}`: {problem}" for problem in CHECKS[words[0]](words[1:])]


def commands_in(text: str) -> list[str]:
    """Command lines in the fenced blocks and the inline code of a page."""
    found = []
    for language, block in FENCE.findall(text):
        if language in ("", "bash", "sh", "console"):
            found += block.replace("\\\n", " ").splitlines()
    # inline code may go over the end of a line
    found += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
    return found


def test_the_checks_find_what_does_not_exist():
    wrong = [
        "pods plan runs/a",
        "pods train --config arithmetic --num_rollout 8",
        "pods compare --config compare/arithmetik",
        "make tests",
        "make docs FOLDER=x",
        "nox -s verl evidense",
        "python -m benchmarks.fast",
        "python -m benchmarks.speed --fast",
        "pytest tests/unit/test_nothing.py",
        "pytest tests/unit -k nothing_like_this_is_there",
        "accelerate launch --num_processes 2 -m podsrl.cli training",
        "python examples/gsm8k_2gpu.py",
        "bash examples/verl/gsm8k_8gpu.sh",
        "pip install 'podsrl[trl,nothing]'",
        "pip install 'podsrl-lab[trl]'",
    ]
    assert [command for command in wrong if not problems_of(command)] == []

    right = [
        "pods train --config arithmetic --dry-run --learning_rate 1e-5",
        "make test WORKERS=1",
        "nox -s versions -- lowest",
        "python -m benchmarks.speed --quick",
        "pytest tests/unit -k the_checks_find",
    ]
    assert [problem for command in right for problem in problems_of(command)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_flags(page):
    text = page.read_text(encoding="utf-8")
    assert [problem for line in commands_in(text) for problem in problems_of(line)] == []


def test_every_command_that_help_names_exists():
    texts = [importlib.import_module(VERBS[verb]).SUMMARY for verb in VERBS]
    texts += [parser_of(verb).format_help() for verb in VERBS]
    words = " ".join(" ".join(texts).split())
    named = re.findall(r"`([^`]+)`", words) + re.findall(r"pods [a-z]+", words)
    assert [problem for command in named for problem in problems_of(command)] == []
    missing = [name for name in re.findall(r"docs/\w+\.md", words) if not (ROOT / name).exists()]
    assert missing == []


def test_every_command_that_a_message_of_the_library_names_exists():
    found = []
    for room in (*SOURCES, ROOT / "benchmarks"):
        for path in sorted(room.rglob("*.py")):
            for text in strings_in(path):
                for command in re.findall(r"`((?:pods|make|nox|python) [^`]+)`", text):
                    found += [f"{path.name}: {problem}" for problem in problems_of(command)]
    assert found == []


def strings_in(path: Path) -> list[str]:
    """All strings of a Python file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [value for value in constants if isinstance(value, str)]


def indented_commands(text: str) -> list[str]:
    """Command lines that stand alone, after two spaces or more, in a docstring or in comments."""
    lines = re.findall(r"^#?\s{2,}(\S.*)$", text.replace("\\\n", " "), re.MULTILINE)
    return [line.split("   ")[0] for line in lines]  # what follows says what it does


def test_every_command_of_a_docstring_or_of_a_comment_in_a_config_or_an_example_exists():
    found = []
    for room in ("src", "lab", "benchmarks", "examples", "tests", "docs"):
        for path in sorted((ROOT / room).rglob("*")):
            for text in prose_in(path):
                commands = [*indented_commands(text), *re.findall(r"`([^`\n]+)`", text)]
                for command in commands:
                    name = path.relative_to(ROOT)
                    found += [f"{name}: {problem}" for problem in problems_of(command)]
    assert found == []


def prose_in(path: Path) -> list[str]:
    """The docstrings of a Python file, and the whole text of a config, a script or a notebook."""
    if path.suffix in (".yaml", ".sh", ".ipynb"):
        return [path.read_text(encoding="utf-8")]
    if path.suffix != ".py" or path == Path(__file__):
        return []

    docstrings = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            docstrings.append(ast.get_docstring(node) or "")
    return docstrings


def linked(page: Path) -> list[Path]:
    """Files that a page links to, and our files that it names in inline code."""
    text = page.read_text(encoding="utf-8")
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target) and not target.startswith("#"):
            found.append(page.parent / target.partition("#")[0])
    for code in re.findall(r"`([^`\s]+)`", FENCE.sub("", text)):
        if code.startswith(tuple(f"{room}/" for room in OURS)) and not re.search("[A-Z]{3}", code):
            found.append(ROOT / code.partition("::")[0])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page):
    named = [str(path.resolve().relative_to(ROOT)) for path in linked(page)]  # may hold a *
    assert [name for name in named if not list(ROOT.glob(name))] == []


def anchors(page: Path) -> set[str]:
    """What a link to a page can name after its #: its headings, as GitHub and MkDocs write them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set(re.findall(r'(?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        repeats = sum(
            re.fullmatch(rf"{re.escape(name)}(-\d+)?", other) is not None for other in found
        )
        found.add(f"{name}-{repeats}" if repeats else name)
    return found


def broken_links(page: Path) -> list[str]:
    """The links of a page to files of ours that are not there, or to headings that they lack."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_there = target.exists()
        if is_there and anchor and target.suffix == ".md":
            is_there = anchor in anchors(target)
        if not is_there:
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page):
    assert broken_links(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# Two [words](a.md)!\n\n## Twice\n\n## Twice\n", "utf-8")
    page.write_text(
        "# Here\n[1](other.md#two-words) [2](other.md#twice-1) [3](#here) [4](https://a.b#c)\n"
        "[5](other.md#three) [6](another.md) [7](#there) [8](other.md#twice-2)\n",
        "utf-8",
    )
    assert broken_links(page) == ["other.md#three", "another.md", "#there", "other.md#twice-2"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_that_a_page_imports_from_us_is_there(page):
    pytest.importorskip("trl")
    blocks = [block for kind, block in FENCE.findall(page.read_text("utf-8")) if kind == "python"]
    for node in [node for block in blocks for node in ast.walk(ast.parse(block))]:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("podsrl", "podslab", "podsgrading")
        ):
            module = importlib.import_module(str(node.module))
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def test_the_figure_of_the_idea_is_what_its_command_draws():
    drawn = runpy.run_path(str(ROOT / "docs" / "site" / "idea.py"))["draw"]()
    assert drawn == (ROOT / "docs" / "idea.svg").read_text(encoding="utf-8")


def test_the_navigation_names_every_page():
    in_nav = re.findall(r"^  - [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert set(in_nav) == {page.name for page in (ROOT / "docs").glob("*.md")}


#: Pages that show how to begin.
LEADING = (
    "README.md",
    "AGENTS.md",
    "docs/README.md",
    "docs/trl.md",
    "docs/verl.md",
    "docs/other-trainers.md",
    "contrib/trl-docs/pods_integration.md",
    "contrib/trl-docs/paper_index.md",
)


@pytest.mark.parametrize("name", LEADING)
def test_the_first_settings_that_a_page_shows_are_the_papers_method(name):
    blocks = [block for _, block in FENCE.findall((ROOT / name).read_text(encoding="utf-8"))]
    settings = re.compile(r"PODSConfig\(|trainer_mode=pods_sync|pods: \{")
    first = next(block for block in blocks if settings.search(block))
    assert re.findall(r"method|rule|baseline|max_\w+(?=\")", first) == []  # the defaults are PODS


GUIDES = [
    "AGENTS.md",
    "README.md",
    *(f"docs/{name}.md" for name in ("trl", "verl", "other-trainers", "methods", "reading", "faq")),
]


@pytest.mark.parametrize("name", GUIDES)
def test_where_right_answers_alone_are_named_the_reports_against_it_are_too(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    if all(paper in text for paper in ("2506.01347", "2504.11343", "2603.18756")):
        return
    named = re.findall(r"`rejection-sampling`(\]\(methods\.md#methods-by-name\))?", text)
    assert all(named)  # or a link to where they are named


def test_your_own_rules_of_the_methods_page_keep_what_their_text_says():
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    blocks = {code.split("\n")[0]: code for kind, code in FENCE.findall(text) if kind == "python"}
    names: dict[str, Any] = {}
    for file in ("# middle.py", "# widest.py", "# best_and_some.py"):
        exec(compile(blocks[file], file, "exec"), names)
    assert podsrl.downsample([[0, 5, 1, 9]], m=2, rule=names["middle"]) == [[1, 2]]
    rewards = [[0.0, 0.1], [0.0, 0.9], [0.5, 0.5]]
    assert podsrl.downsample_batch(rewards, rows=2, rule=names["widest"])[1] == [True, True]

    drawn = podsrl.Selection(4, 2, names["best_and_some"], baseline="group", seed=0)
    selected = select_groups(drawn, [[0.0, 0.0, 1.0, 0.0]] * 99, scale=False)
    assert all(2 in kept for kept in selected.kept)
    # Away from 1/4: the best one by 3/4, times m/n = 1/2; the other by -1/4, times 1/2 over 1/3.
    assert {tuple(sorted(group)) for group in selected.advantages} == {(-0.375, 0.375)}


def test_the_page_of_methods_says_what_each_method_is():
    """Name, sizes, rule, baseline and source stand in one table, which is held to `METHODS`."""
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    row = r"^\| `([\w-]+)` \| (\d+) → (\d+)( on average)? \| (.+?) \| `(\w+)` \| (.+?) \|$"
    found = {name: more for name, *more in re.findall(row, page, re.MULTILINE)}
    assert set(found) == set(podsrl.METHODS)
    for name, (n, m, mean, rule, baseline, source) in found.items():
        selection = podsrl.METHODS[name].selection
        assert (int(n), int(m)) == (selection.num_rollouts, selection.num_kept), name
        assert bool(mean) == selection.across_prompts, name
        assert baseline == selection.baseline, name
        named = "all are kept" if selection.keeps_all else f"`{selection.rule}`"
        assert rule.split(";")[0] == named, name
        papers = re.findall(r"\d{4}\.\d{5}", podsrl.METHODS[name].source)
        assert source == "ours" or set(papers) <= set(re.findall(r"\d{4}\.\d{5}", source)), name


@pytest.mark.parametrize("page", ["AGENTS.md", "docs/methods.md"])
def test_every_method_is_named_where_methods_are_listed(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in podsrl.METHODS if f"`{name}`" not in text] == []


def test_the_page_of_rules_names_every_rule():
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert [name for name in podsrl.RULES if f"`{name}`" not in page] == []
