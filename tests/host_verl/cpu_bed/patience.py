"""Ray gives a node 30 seconds to start, whatever one sets; on a busy machine it may need more."""

import time

from ray._private import services

_SECONDS = 600

_get_node = services.get_node


def _get_node_once_it_is_there(*args):
    end = time.monotonic() + _SECONDS
    while True:
        try:
            return _get_node(*args)
        except RuntimeError:  # it has not registered yet
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


services.get_node = _get_node_once_it_is_there
