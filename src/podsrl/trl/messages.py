"""podsrl's messages in scripts that configure no logging."""

import logging

logger = logging.getLogger("podsrl.trl")


def show_messages() -> None:
    """Show what podsrl says (level INFO) on stderr, where and while nobody configures logging."""
    ours = logging.getLogger("podsrl")
    if ours.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: not logging.getLogger().handlers)
    handler.setFormatter(logging.Formatter("podsrl: %(message)s"))
    ours.addHandler(handler)
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.INFO)
