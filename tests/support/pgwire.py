"""As much of the Postgres wire protocol as the fault proxy needs to see statements go by."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field

CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104


@dataclass(frozen=True, slots=True)
class Message:
    tag: bytes
    body: bytes

    def encode(self) -> bytes:
        return self.tag + struct.pack("!i", len(self.body) + 4) + self.body


async def read_message(reader: asyncio.StreamReader) -> Message:
    """One message of either side after the start-up phase; IncompleteReadError at the end."""
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!i", head[1:])
    return Message(head[:1], await reader.readexactly(length - 4))


async def read_startup(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One untagged message of the start-up phase: its code and its bytes as they came."""
    head = await reader.readexactly(8)
    length, code = struct.unpack("!ii", head)
    return code, head + await reader.readexactly(length - 8)


@dataclass(slots=True)
class Statements:
    """The statement text behind each message of one client connection.

    In the extended protocol the text is only in Parse; a statement prepared once is later run by
    Bind and Execute, which carry names. Following the names gives every execution its text.
    """

    _prepared: dict[bytes, str] = field(default_factory=dict)
    _portals: dict[bytes, str] = field(default_factory=dict)

    def executed(self, message: Message) -> str | None:
        """The text this message asks to execute; None for every other message."""
        if message.tag == b"Q":
            return message.body.rstrip(b"\0").decode(errors="replace")
        if message.tag == b"P":
            name, text, _ = message.body.split(b"\0", 2)
            self._prepared[name] = text.decode(errors="replace")
        elif message.tag == b"B":
            portal, name, _ = message.body.split(b"\0", 2)
            self._portals[portal] = self._prepared.get(name, "")
        elif message.tag == b"E":
            return self._portals.get(message.body.split(b"\0", 1)[0], "")
        return None


def ends_cycle(message: Message) -> bool:
    """Whether the server answers this client message with ReadyForQuery in the end."""
    return message.tag in {b"Q", b"S", b"F"}
