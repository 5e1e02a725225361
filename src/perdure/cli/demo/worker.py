"""A further process that works on an archive: `python -m perdure.cli.demo.worker`.

It serves the archive's queue until nobody holds the other end of its standard input: the kernel
closes that however the program that started it ends.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from contextlib import suppress

import msgspec

from perdure.cli.demo.service import Post, archive_engine
from perdure.cli.demo.tally import TALLY, Tally
from perdure.cli.demo.workflows import archive_file
from perdure.errors import PerdureError

INTERVAL_S = 0.1
"""How often it says how much it has done."""

LONGEST_NOTE = 1000
"""Characters of a note: a pipe takes some 4,000 bytes whole or not at all."""


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker says: how much it has settled by now, or a note to be shown."""

    files: int = 0
    size: int = 0
    note: str = ""


def main() -> None:
    """Serve the post that the first line of the standard input names."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return  # the program that started it is gone already
    post = msgspec.json.decode(line, type=Post)
    os.set_blocking(sys.stdout.fileno(), False)
    logging.getLogger("perdure").addHandler(_NoteHandler(logging.WARNING))
    try:
        asyncio.run(_serve(post))
    except PerdureError as error:
        _say(Word(note=str(error)[:LONGEST_NOTE]))
        sys.exit(1)


async def _serve(post: Post) -> None:
    tally = Tally()
    TALLY.set(tally)
    stop = _stop_signal()
    said = 0
    async with archive_engine(post, [archive_file]):
        while not stop.is_set():
            if tally.files != said and _say(Word(tally.files, tally.size)):
                said = tally.files
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_S):
                    await stop.wait()
    _say(Word(tally.files, tally.size))


def _stop_signal() -> asyncio.Event:
    """Set when the program that started this one ends or says so, and by SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        with suppress(RuntimeError):  # it has ended by itself meanwhile
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="perdure-demo-stop", daemon=True).start()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    return stop


class _NoteHandler(logging.Handler):
    """Hands what the engine warns about to the program, which shows it among its notes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        _say(Word(note=record.getMessage()[:LONGEST_NOTE]))


def _say(word: Word) -> bool:
    """Whether it was said: a program that does not read, as one that is suspended, holds up nobody.

    The next word tells again how much was done; only a note is lost.
    """
    try:
        os.write(sys.stdout.fileno(), msgspec.json.encode(word) + b"\n")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
