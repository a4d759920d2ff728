"""How the process of a run ends, and that it ends with the one that started it."""

import os
import threading

#: A crash, or a failing reward function.
FAILED = 1
#: An error of the user's, which other runs would share.
USER_ERROR = 2
#: The process that started it is gone.
PARENT_GONE = 3


def end_with_parent() -> None:
    """End this process once nobody holds the other end of its standard input any more."""

    def watch() -> None:
        os.read(0, 1)  # nothing is ever written: it returns when the pipe is closed
        os._exit(PARENT_GONE)

    threading.Thread(target=watch, daemon=True).start()
