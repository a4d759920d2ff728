"""The check of TRL's version, before something of an untested one fails with a riddle."""

import logging

import trl
from packaging.version import Version

from podsrl.errors import UnsupportedError

OLDEST, NEWEST = Version("1.9"), Version("1.16")
#: What pip is asked for; the same stands in pyproject.toml.
TESTED = f"trl>={OLDEST},<{NEWEST.major}.{NEWEST.minor + 1}"


def check_version(installed: str = trl.__version__) -> None:
    """Refuse a TRL that is too old, and warn of one that podsrl was never run with.

    Raises:
        UnsupportedError: The trainer of this TRL has other places than podsrl needs.
    """
    version = Version(installed)
    if version < OLDEST:
        raise UnsupportedError(
            f"podsrl needs TRL {OLDEST} to {NEWEST}, and {installed} is installed:"
            f" pip install '{TESTED}'"
        )
    if (version.major, version.minor) > (NEWEST.major, NEWEST.minor):
        logging.getLogger("podsrl.trl").warning(
            "TRL %s is newer than %s, the newest that podsrl was tested with; if it fails, pip"
            " install '%s'",
            installed,
            NEWEST,
            TESTED,
        )
