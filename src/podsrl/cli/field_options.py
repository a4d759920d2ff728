"""The options by which `pods inspect` and `pods select` name the fields of a file."""

import argparse
from collections.abc import Sequence

from podsrl.errors import InvalidInputError
from podsrl.inspector.fields import Fields

_HELP = {
    "prompt": "with the prompt",
    "completion": "with the completion",
    "reward": "with the reward; several with their weights are added: right=1,form=0.2",
    "group": "that says which rollouts are of one prompt",
    "step": "with the step",
}
#: What a number chooses in place of naming a field, where something is shown.
_CHOSEN = {"prompt": "prompts to show, by number from 0", "step": "steps to show"}


def add_field_options(parser: argparse.ArgumentParser, numbers: bool) -> None:
    """Add --prompt, --completion, --reward, --group and --step.

    Args:
        parser: Where to add them.
        numbers: Whether --step and --prompt also take numbers, which choose what is shown.
    """
    for name, what in _HELP.items():
        if numbers and name in _CHOSEN:
            parser.add_argument(
                f"--{name}",
                nargs="+",
                default=[],
                action="extend",
                metavar="K|FIELD",
                help=f"{_CHOSEN[name]}; or the name of the field {what}",
            )
        else:
            parser.add_argument(f"--{name}", metavar="FIELD", help=f"the field {what}")


def fields_of(args: argparse.Namespace) -> Fields:
    """The fields that were named.

    Raises:
        InvalidInputError: A field was named twice, or a weight of the reward is no number.
    """
    named = {}
    for name in _HELP:
        given = getattr(args, name)
        words = [given] if isinstance(given, str) else list(given or ())
        words = [word for word in words if not word.isdigit()]
        if len(words) > 1:
            raise InvalidInputError(f"--{name}: one field at most; got {', '.join(words)}")
        named[name] = words[0] if words else None
    fields = Fields(**named)
    _ = fields.rewards  # which checks the weights
    return fields


def numbers_of(words: Sequence[str]) -> list[int]:
    """The numbers among the words of an option."""
    return [int(word) for word in words if word.isdigit()]
