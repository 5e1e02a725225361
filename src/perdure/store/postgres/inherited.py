"""Connections in a process made by `fork`: a child lets go of its parent's.

A session lives as long as any process has its socket: with a copy in a child the death of the
parent would go unnoticed, and its liveness lock would stay held.
"""

import os
from weakref import WeakSet

import asyncpg

_opened: "WeakSet[asyncpg.Connection[asyncpg.Record]]" = WeakSet()
"""Every connection of this process: the state belongs to the process, as its sockets do."""


def note(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Remember a connection for the case of a fork."""
    _opened.add(connection)


def _let_go_in_child() -> None:
    # Nothing is said to the server, for that would end the parent's session. The descriptors stay
    # taken, so that whatever closes them later closes nothing else.
    nowhere = os.open(os.devnull, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    for connection in list(_opened):
        transport = getattr(connection, "_transport", None)
        socket = transport.get_extra_info("socket") if transport is not None else None
        if socket is not None and socket.fileno() >= 0:
            os.dup2(nowhere, socket.fileno(), inheritable=False)
    _opened.clear()
    os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
