"""One question to a database: which one, as options say; open a client, ask, close."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from perdure.api.client import Client
from perdure.cli.options import (
    APP_DEFAULT,
    SCHEMA_DEFAULT,
    App,
    Database,
    Json,
    Schema,
    required,
)
from perdure.cli.sharing import sharing
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


@dataclass(frozen=True, slots=True)
class Asker:
    """Whom a command asks, and whether it prints the answer for machines."""

    client: Client
    as_json: bool

    @property
    def app(self) -> str:
        """The application that is meant."""
        return self.client.config.name

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """The answer; see `ask`."""
        return ask(self.client, question)


def application(
    *, database: Database = None, schema: Schema = SCHEMA_DEFAULT, app: App = APP_DEFAULT
) -> Client:
    """A client of one application."""
    return Client(required(database), name=app, schema=schema)


def everybody(*, database: Database = None, schema: Schema = SCHEMA_DEFAULT) -> Client:
    """A client for what ids or names find, whosever it is."""
    return Client(required(database), schema=schema)


@sharing(application)
def of_application(client: Client, *, as_json: Json = False) -> Asker:
    """Who asks about one application."""
    return Asker(client, as_json)


@sharing(everybody)
def of_everybody(client: Client, *, as_json: Json = False) -> Asker:
    """Who asks about whatever there is."""
    return Asker(client, as_json)
