"""A program that kills process groups when the test run that started it is gone.

It reads `+PGID` and `-PGID` lines. When its input ends, or its parent is gone while a forked child
still holds the input open, it kills every group that was added and not removed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal


def main() -> None:
    parent = os.getppid()
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    groups: set[int] = set()
    buffered = b""
    while True:
        readable, _, _ = select.select([0], [], [], 1.0)
        received = os.read(0, 65536) if readable else b""
        if readable and not received:
            break
        if not readable and os.getppid() != parent:
            break
        *lines, buffered = (buffered + received).split(b"\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
