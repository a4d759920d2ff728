"""How the process of a run ends, and that it ends with the one that started it."""

import os
import threading

#: A crash or a failing reward function; an error of the user's, which other runs would share; the
#: process that started it is gone.
FAILED, USER_ERROR, PARENT_GONE = 1, 2, 3


def end_with_parent() -> None:
    """End this process once nobody holds the other end of its standard input any more."""

    def watch() -> None:
        os.read(0, 1)  # nothing is ever written: it returns when the pipe is closed
        os._exit(PARENT_GONE)

    threading.Thread(target=watch, daemon=True).start()
