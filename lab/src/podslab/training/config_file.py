"""Reading a config: a YAML file, or one that is shipped."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from podsrl.errors import InvalidInputError, suggestion

CONFIGS = Path(__file__).parent.parent / "configs"


class _Loader(yaml.SafeLoader):
    """YAML as usual, except that a key may not stand twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # SafeLoader refuses it below
            if key in keys and key != "<<":  # a mapping may be merged from several others
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key!r} stands twice", problem_mark=key_node.start_mark
                )
            keys.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(text: str, where: str) -> Any:
    """Read the mapping in a YAML text.

    Raises:
        InvalidInputError: It is not YAML, or a key stands twice; the message begins with `where`.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise InvalidInputError(f"{where} is not YAML: {' '.join(str(error).split())}") from error


def read_config(name: str | Path) -> dict[str, Any]:
    """A YAML mapping from a file, or from one of the shipped configs by its name.

    Args:
        name: A path, or a name such as "arithmetic" or "paper/a-gsm8k".

    Raises:
        InvalidInputError: No such file or config, or no YAML mapping in it.
    """
    path = Path(name).expanduser()
    if not path.is_file():
        path = _shipped_config(str(name).removesuffix(".yaml"), path)

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not YAML: {error}") from error

    config = read_yaml(text, str(path))
    if not isinstance(config, dict):
        raise InvalidInputError(f"{path} must hold a YAML mapping, such as 'task: gsm8k'")
    return config


def refuse_comparison(config: Mapping[str, Any], name: str) -> None:
    """Refuse a config of `pods compare`, which has settings for several runs.

    Args:
        config: What the file holds.
        name: As the user named it.

    Raises:
        InvalidInputError: It has arms.
    """
    if "arms" in config:
        raise InvalidInputError(
            f"{name} is the config of a comparison, with several arms: pods compare --config {name}"
        )


def _shipped_config(name: str, path: Path) -> Path:
    """The file of a shipped config; the path is the one that was asked for and is not there."""
    shipped = CONFIGS / f"{name}.yaml"
    if not shipped.is_file():
        files = CONFIGS.rglob("*.yaml")
        names = sorted(str(file.relative_to(CONFIGS).with_suffix("")) for file in files)
        at_the_top = [name for name in names if "/" not in name]
        otherwise = f"allowed: {', '.join(at_the_top)}, and those of {CONFIGS}"
        near = suggestion(name, names, otherwise)
        raise InvalidInputError(f"no config file {path}, and no shipped config; {near}")
    return shipped


def parse_options(value: str | None) -> dict[str, Any]:
    """Options given as JSON or YAML text; an `InvalidInputError` if they are no mapping.

    >>> parse_options('{"columns": 4}')
    {'columns': 4}
    """
    if value is None:
        return {}
    options = read_yaml(value, f"options {value!r}: this")
    if not isinstance(options, dict):
        raise InvalidInputError(f"options must be a mapping such as {{columns: 4}}; got {value!r}")
    return options
