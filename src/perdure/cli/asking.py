"""One question to a database: open a client, ask, close."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure.api.client import Client

T = TypeVar("T")


def ask(client: Client, question: Callable[[Client], Awaitable[T]]) -> T:
    """The answer; the client is open while the question is asked."""

    async def answer() -> T:
        async with client:
            return await question(client)

    return asyncio.run(answer())
