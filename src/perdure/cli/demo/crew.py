"""The workers of one start: begins them, hears from them, and lets them go."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import msgspec

from perdure.cli.demo.display import Display
from perdure.cli.demo.service import Post
from perdure.cli.demo.tally import Tally
from perdure.cli.demo.worker import Word

PATIENCE_S = 10.0
"""How long a worker may take to stop. Killing it then loses nothing that it has recorded."""


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process, and both ends of what is said between us."""

    process: asyncio.subprocess.Process
    orders: asyncio.StreamWriter
    words: asyncio.StreamReader


class Crew:
    """The processes that serve an archive besides this one.

    Leaving the `with` block waits until they are gone. They go when they are let go, and by
    themselves as soon as this process is no more, however it ended.
    """

    def __init__(self, tally: Tally, display: Display) -> None:
        self._tally = tally
        self._display = display
        self._workers: list[_Worker] = []
        self._listening: list[asyncio.Task[None]] = []
        self._is_let_go = False

    async def start(self, posts: Sequence[Post]) -> None:
        """Begin a worker for each post."""
        for post in posts:
            worker = await _begin(post)
            self._workers.append(worker)
            self._listening.append(asyncio.create_task(self._listen(post.number, worker)))
            self._display.note(f"worker {post.number} is process {worker.process.pid}")

    def let_go(self) -> None:
        """Tell them to stop, which they do in order; does not wait."""
        self._is_let_go = True
        for worker in self._workers:
            worker.orders.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.let_go()
        if not self._listening:
            return
        _, late = await asyncio.wait(self._listening, timeout=PATIENCE_S)
        if late:
            for worker in self._workers:
                with suppress(ProcessLookupError):
                    worker.process.kill()
            await asyncio.wait(late)

    async def _listen(self, number: int, worker: _Worker) -> None:
        async for line in worker.words:
            word = msgspec.json.decode(line, type=Word)
            if word.note:
                self._display.note(f"worker {number}: {word.note}")
            else:
                self._tally.settle_elsewhere(number, word.files, word.size)
        code = await worker.process.wait()
        if not self._is_let_go:
            ending = f"exit code {code}" if code >= 0 else f"signal {-code}"
            self._display.note(
                f"worker {number} ended by {ending}; the others go on with its files"
            )


async def _begin(post: Post) -> _Worker:
    """Begin a worker, which finds its modules where this process did."""
    with _shielded_from_interrupts():
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            *("-m", "perdure.cli.demo.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    orders, words = process.stdin, process.stdout
    if orders is None or words is None:
        raise RuntimeError("a worker was begun without pipes")
    # Not in the arguments, which every user of the machine can read: the URL may hold a password.
    orders.write(msgspec.json.encode(post) + b"\n")
    return _Worker(process, orders, words)


@contextmanager
def _shielded_from_interrupts() -> Iterator[None]:
    """Let what begins here never see Ctrl-C, which a terminal sends to all processes at once.

    It inherits the mask. What comes for this process meanwhile is delivered afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
