"""The recipe says of version, Python and requirements what pyproject.toml says."""

import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import podsrl

HERE = Path(__file__).parent
RECIPE: dict[str, Any] = yaml.safe_load((HERE / "recipe.yaml").read_text("utf-8"))
PYPROJECT: dict[str, Any] = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text("utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]

#: Packages that conda-forge calls otherwise.
NAMES = {"torch": "pytorch", "duckdb": "python-duckdb"}


def of_pip(requirements: list[str]) -> dict[str, SpecifierSet]:
    """The versions of packages, by conda's names."""
    parsed = map(Requirement, requirements)
    return {NAMES.get(one.name, one.name): one.specifier for one in parsed}


def of_conda(requirements: list[str]) -> dict[str, SpecifierSet]:
    """The same of a recipe's list, without Python."""
    pairs = [(*one.split(" ", 1), "")[:2] for one in requirements]
    return {name: SpecifierSet(versions) for name, versions in pairs if name != "python"}


def test_version_name_licence_and_command_are_those_of_the_package():
    assert RECIPE["context"]["version"] == podsrl.__version__
    assert RECIPE["package"] == {"name": PROJECT["name"], "version": "${{ version }}"}
    about = RECIPE["about"]
    assert (about["summary"], about["license"]) == (PROJECT["description"], PROJECT["license"])
    assert [about["license_file"]] == PROJECT["license-files"]

    commands = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert RECIPE["build"]["python"]["entry_points"] == commands


def test_python_is_the_one_that_the_package_requires():
    least = RECIPE["context"]["python_min"]
    assert f">={least}" == PROJECT["requires-python"]
    assert "python >=${{ python_min }}" in RECIPE["requirements"]["run"]
    assert "python ${{ python_min }}.*" in RECIPE["requirements"]["host"]


def test_requirements_are_those_of_the_package():
    needed = RECIPE["requirements"]
    assert of_conda(needed["run"]) == of_pip(PROJECT["dependencies"])

    build = of_conda(needed["host"])
    assert build.pop("pip") == SpecifierSet()
    assert build == of_pip(PYPROJECT["build-system"]["requires"])


def test_the_constraints_are_the_extras_for_trl_and_the_inspector():
    extras = PROJECT["optional-dependencies"]
    expected = of_pip([*extras["trl"], *extras["inspect"]])
    assert of_conda(RECIPE["requirements"]["run_constraints"]) == expected
