"""A TCP proxy in front of Postgres that makes the network fail where a test wants it to.

Faults of the whole line: `cut`, `refuse`, `delay_s`, `black_hole`. Faults of one statement are
armed with the text it contains and fire once:

- `cut_request`: the connection breaks before the server sees the statement;
- `cut_answer`: the server has run it, and committed what it commits, and the answer is lost;
- `hold_request`, `hold_answer`: the statement, or the answer to it, waits until `release()`.

The proxy runs in the loop that started it. Connect through it with `proxy.url(dsn)`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

from tests.support.pgwire import (
    CANCEL_REQUEST,
    GSSENC_REQUEST,
    SSL_REQUEST,
    Message,
    Statements,
    ends_cycle,
    read_message,
    read_startup,
)

Effect = Literal["cut_request", "cut_answer", "hold_request", "hold_answer"]
Matches = Callable[[str], bool]


@dataclass(eq=False)
class Fault:
    """One armed fault. `fired` is set when it strikes; `answer` are the tags the server sent.

    For `cut_answer`, `fired` means that the server has finished the statement's cycle: `b"C"` in
    the answer says it succeeded, `b"E"` that it failed.
    """

    matches: Matches
    effect: Effect
    remaining: int
    fired: asyncio.Event = field(default_factory=asyncio.Event)
    answer: list[bytes] = field(default_factory=list)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Lets what is held go on."""
        self._released.set()

    async def wait_released(self) -> None:
        await self._released.wait()


class FaultProxy:
    def __init__(self, dsn: str) -> None:
        target = urlsplit(dsn)
        self.target = (target.hostname or "127.0.0.1", target.port or 5432)
        self.port = 0
        self.delay_s = 0.0
        self.faults: list[Fault] = []
        self.accepted = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._lines: dict[asyncio.Task[None], _Line] = {}

    def url(self, dsn: str) -> str:
        """The DSN of any database of the server, through the proxy."""
        parts = urlsplit(dsn)
        credentials = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{credentials}@127.0.0.1:{self.port}"))

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        self.restore()
        for fault in self.faults:
            fault.release()
        tasks = list(self._lines)
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """How many client connections are open."""
        return len(self._lines)

    def cut(self) -> None:
        """Breaks every open connection; new ones are still taken."""
        for line in self._lines.values():
            line.abort()

    def refuse(self) -> None:
        """Refuses new connections until `accept`; open ones live on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def accept(self) -> None:
        """Takes new connections, on the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def black_hole(self) -> None:
        """Nothing passes in either direction, and nobody is told, until `restore`."""
        self._flowing.clear()

    def restore(self) -> None:
        """Ends a black hole: what was sent meanwhile arrives, as after a partition heals."""
        self._flowing.set()

    def cut_request(self, when: str | Matches, *, nth: int = 1) -> Fault:
        return self._arm(when, "cut_request", nth)

    def cut_answer(self, when: str | Matches, *, nth: int = 1) -> Fault:
        return self._arm(when, "cut_answer", nth)

    def hold_request(self, when: str | Matches, *, nth: int = 1) -> Fault:
        return self._arm(when, "hold_request", nth)

    def hold_answer(self, when: str | Matches, *, nth: int = 1) -> Fault:
        return self._arm(when, "hold_answer", nth)

    def _arm(self, when: str | Matches, effect: Effect, nth: int) -> Fault:
        """`when` is a part of the statement's text (`""` for any), or decides from the text."""
        wanted = when
        matches = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        fault = Fault(matches, effect, nth)
        self.faults.append(fault)
        return fault

    def struck_by(self, text: str) -> Fault | None:
        """The fault that strikes this execution. Each execution counts once for each fault."""
        struck = None
        for fault in self.faults:
            if fault.remaining > 0 and fault.matches(text):
                fault.remaining -= 1
                if fault.remaining == 0 and struck is None:
                    struck = fault
        return struck

    async def pass_through(self) -> None:
        """Waits as long as the line is slow or dead."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self._flowing.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        line = self._lines[task] = _Line(self, reader, writer)
        try:
            await line.run()
        finally:
            line.abort()
            del self._lines[task]


class _Line:
    """One client connection and its connection to the server."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.proxy = proxy
        self.client = reader
        self.to_client = writer
        self.to_server: asyncio.StreamWriter | None = None
        self.statements = Statements()
        # Cycles end with ReadyForQuery; the first one belongs to the start-up.
        self.asked = 0
        self.answered = -1
        self.struck: dict[int, Fault] = {}

    def abort(self) -> None:
        for writer in (self.to_client, self.to_server):
            if writer is not None:
                writer.transport.abort()

    async def run(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self.proxy.pass_through()
            server, self.to_server = await asyncio.open_connection(*self.proxy.target)
            if not await self._start_up(server, self.to_server):
                return
            pumps = [
                asyncio.create_task(self._requests(self.to_server)),
                asyncio.create_task(self._answers(server)),
            ]
            try:
                # Whichever side ends first ends the line.
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.abort()
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)

    async def _start_up(
        self, server: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> bool:
        """Relays the untagged beginning; False when the connection was only a cancel request."""
        while True:
            code, data = await read_startup(self.client)
            await self.proxy.pass_through()
            to_server.write(data)
            await to_server.drain()
            if code == CANCEL_REQUEST:
                await server.read()
                return False
            if code not in {SSL_REQUEST, GSSENC_REQUEST}:
                return True
            answer = await server.readexactly(1)
            if answer != b"N":
                raise OSError("the proxy cannot read an encrypted connection")
            self.to_client.write(answer)
            await self.to_client.drain()

    async def _requests(self, to_server: asyncio.StreamWriter) -> None:
        while True:
            message = await read_message(self.client)
            await self.proxy.pass_through()
            text = self.statements.executed(message)
            fault = None if text is None else self.proxy.struck_by(text)
            if fault is not None and not await self._strike_request(fault):
                return
            if ends_cycle(message):
                self.asked += 1
            to_server.write(message.encode())
            await to_server.drain()

    async def _strike_request(self, fault: Fault) -> bool:
        """Applies a fault before the message is sent on; False when the line is to be cut."""
        if fault.effect == "cut_request":
            fault.fired.set()
            return False
        if fault.effect == "hold_request":
            fault.fired.set()
            await fault.wait_released()
        else:
            # The answer to the cycle this message belongs to, which a later Sync may end.
            self.struck[self.asked] = fault
        return True

    async def _answers(self, server: asyncio.StreamReader) -> None:
        held: list[Message] = []
        while True:
            message = await read_message(server)
            await self.proxy.pass_through()
            fault = self.struck.get(self.answered)
            ready = message.tag == b"Z"
            if fault is not None:
                fault.answer.append(message.tag)
                held.append(message)
                if not ready:
                    continue
                fault.fired.set()
                if fault.effect == "cut_answer":
                    return
                await fault.wait_released()
            self.answered += ready
            for each in held or [message]:
                self.to_client.write(each.encode())
            held.clear()
            await self.to_client.drain()
