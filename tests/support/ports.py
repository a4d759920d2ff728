"""Ports of this machine."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """A port that nothing listens on, and that no other process is given while it is held.

    Who knows it can listen there, as servers do that allow the reuse of addresses: the socket that
    holds it does not listen.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("localhost", 0))
        yield holder.getsockname()[1]
