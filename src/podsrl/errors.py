"""The errors podsrl raises. Each is a `PodsError` and also the standard error that it refines."""


class PodsError(Exception):
    """Base of every error raised on purpose by podsrl."""


class InvalidInputError(PodsError, ValueError):
    """An argument, a config value or a data file is not allowed; the message says what is."""


class UnknownNameError(PodsError, KeyError):
    """A rule, task or arm of that name does not exist; the message lists those that do."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class UnsupportedError(PodsError, RuntimeError):
    """A combination of features that podsrl refuses rather than run wrongly."""


class MissingDependencyError(PodsError, ImportError):
    """An optional package is needed; the message says how to install it."""


class RewardError(PodsError, RuntimeError):
    """A reward function raised, or returned something that is no reward."""
