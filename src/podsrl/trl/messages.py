"""podsrl's messages in scripts that configure no logging."""

import logging
import sys

logger = logging.getLogger("podsrl.trl")


class _WhereUnconfigured(logging.StreamHandler):
    """Writes to stderr until somebody gives the root logger a handler, which then has it all."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            self.stream = sys.stderr
            super().emit(record)


def show_messages() -> None:
    """Show what podsrl says (level INFO) on stderr, where nobody has configured logging."""
    ours = logging.getLogger("podsrl")
    if ours.handlers or logging.getLogger().handlers:
        return
    handler = _WhereUnconfigured()
    handler.setFormatter(logging.Formatter("podsrl: %(message)s"))
    ours.addHandler(handler)
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.INFO)
