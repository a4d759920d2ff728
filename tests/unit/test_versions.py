"""`nox -s versions` and `nox -s canary`: what they install, and what they say."""

import re
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import versions

ROOT = Path(__file__).parents[2]
SPECS = tomllib.loads((ROOT / "requirements" / "versions.toml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LAB = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# as pytest writes it of tests of ours, in a TRL where two names are gone
RESULTS = """<testsuites><testsuite tests="5" failures="2" errors="1" skipped="1">
<testcase name="test_the_wrapped_methods_take_what_they_took[_generate-expected1]">
<failure message="AssertionError: TRL changed GRPOTrainer._generate: gone | see"/></testcase>
<testcase name="test_the_attributes_that_are_read_or_written_exist">
<failure message="AssertionError: TRL changed GRPOTrainer._step"/></testcase>
<testcase name="test_that_is_broken"><error message="ImportError: no X"/></testcase>
<testcase name="test_that_passes"/><testcase name="test_skipped"><skipped/></testcase>
</testsuite></testsuites>"""


def test_the_canary_names_what_moved_in_words_to_paste_into_an_issue():
    results = ElementTree.fromstring(RESULTS)
    assert versions.counts(results) == {"passed": 1, "failed": 3, "skipped": 1}

    assert versions.moved(results, {"trl": "1.17.0", "torch": "2.15.0"}) == (
        "## 3 things that podsrl relies on moved\n"
        "\n"
        "Found with trl 1.17.0, torch 2.15.0.\n"
        "\n"
        "| pinned | what was found |\n"
        "|---|---|\n"
        "| `_generate` | AssertionError: TRL changed GRPOTrainer._generate: gone \\| see |\n"
        "| the attributes that are read or written exist"
        " | AssertionError: TRL changed GRPOTrainer._step |\n"
        "| that is broken | ImportError: no X |\n"
    )


def test_the_canary_says_where_nothing_moved_and_names_an_import_that_is_gone():
    nothing = ElementTree.fromstring('<testsuites><testsuite tests="1"/></testsuites>')
    assert versions.moved(nothing, {"trl": "1.17.0"}) == (
        "Nothing that podsrl relies on has moved in trl 1.17.0.\n"
    )

    only = versions.moved(nothing, {"trl": "1.17.0"}, ["trl.models.x"])
    assert only.startswith("## 1 thing that podsrl relies on moved\n")
    assert "| `trl.models.x` | gone: podsrl imports it |" in only


def test_the_canary_finds_each_import_that_is_gone_and_tests_that_can_not_even_start(tmp_path):
    pairs = versions.imported()
    assert ("trl.trainer.utils", "nanstd") in pairs
    assert any(module.startswith("verl.") for module, _ in pairs)

    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    # A link would not find the packages of the environment that it leads into.
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    asked = [("json", "loads"), ("json", "no_such"), ("json.nowhere", "x"), ("not_installed", "x")]
    assert versions.gone(python, asked) == ["json.no_such", "json.nowhere.x"]

    broken = tmp_path / "test_broken.py"
    broken.write_text("from json import no_such\n")
    (tmp_path / "conftest.py").write_text("from json import no_such_either\n")

    results = versions.run_tests(python, {}, [str(broken)])
    assert "cannot import name 'no_such_either'" in versions.moved(results, {"trl": "2"})


def test_the_canary_installs_all_that_an_extra_needs_without_bounds():
    wanted = versions.newest("dev")
    assert {"numpy", "trl", "torch", "transformers", "jinja2", "pebble"} <= set(wanted)
    assert "readme-renderer[md]" in wanted
    assert not re.search("[<>=~ ]", " ".join(wanted).replace(" ", ""))
    assert not [name for name in wanted if name.startswith("podsrl")]


def test_lower_bounds_are_the_versions_that_are_tested():
    pinned = dict(word.split("==") for word in SPECS["lowest"]["install"] if "==" in word)
    extras = PROJECT["optional-dependencies"]
    of_extras = {*extras["trl"], *extras["inspect"]}
    for need in {*PROJECT["dependencies"], *of_extras, *LAB["dependencies"]}:
        name, bound = re.match(r"([\w-]+)(?:\[[\w,]+\])?(?:>=([\d.]+))?", need).groups()
        if name not in ("torch", "podsrl"):  # results/versions.md tells why
            assert without_zeros(pinned[name]) == without_zeros(bound), need


def without_zeros(version):
    """1.2.0 and 1.2 are the same version."""
    return version.removesuffix(".0").removesuffix(".0")


def test_the_table_in_the_docs_has_a_row_for_each_environment_and_their_tests_exist():
    page = (ROOT / "results" / "versions.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    assert named == [name for name in SPECS if not name.startswith("canary")]
    for spec in SPECS.values():
        assert [test for test in spec["tests"] if not (ROOT / test).exists()] == []
    classified = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert classified == sorted({spec["python"] for spec in SPECS.values()})
