"""One question to a database: open a client, ask, close."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure.api.client import Client
from perdure.errors import PerdureError, UnknownQueue, UnknownVersion

T = TypeVar("T")


def ask(client: Client, question: Callable[[Client], Awaitable[T]]) -> T:
    """The answer; the client is open while the question is asked.

    That there is no such queue or version is a failure here, not a wrong use.
    """

    async def answer() -> T:
        async with client:
            return await question(client)

    try:
        return asyncio.run(answer())
    except UnknownQueue as error:
        missing, lister = f"queue {error.queue!r}", "perdure queue list"
        cause: Exception = error
    except UnknownVersion as error:
        missing, lister = f"version {error.version!r}", "perdure version list"
        cause = error
    raise PerdureError(
        f"application {client.config.name!r} has no {missing}; `{lister}` shows those it has, and "
        "--app names another application"
    ) from cause
