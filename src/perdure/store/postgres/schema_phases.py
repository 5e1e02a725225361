"""What a Postgres database holds of the system schema, and what brings it up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import asyncpg

from perdure.logic.schema import (
    BOOKKEEPING,
    OLDEST_CONVERGED,
    SHARED_TABLES,
    FoundSchema,
    schema_steps,
)
from perdure.model.wire import SCHEMA_VERSION
from perdure.store.ddl import Statement, dollar_quote, render, statements
from perdure.store.identifiers import own_schema, quote_identifier
from perdure.store.postgres.schema_connection import (
    SNAPSHOT,
    STATEMENT_S,
    Connection,
    transaction,
)

PACKAGE = "perdure.store.postgres"
ONLINE = " CONCURRENTLY "


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one system schema, as given and as quoted in statements."""

    shared: str
    own: str

    @classmethod
    def of(cls, shared: str) -> Names:
        """The names for a shared schema; `ConfigurationError` if it cannot be one."""
        names = cls(shared, own_schema(shared))
        names.render(Statement("check", "{schema}{own}"))
        return names

    @property
    def where(self) -> str:
        """What messages call it."""
        return f"schema {quote_identifier(self.shared)}"

    def render(self, statement: Statement, **values: str) -> Statement:
        """The statement with our names, and the given values, in their places."""
        schema = quote_identifier(self.shared)
        own = quote_identifier(self.own)
        standing = {"schema": schema, "own": own, "dollar": dollar_quote(schema)}
        return render(statement, standing | values)


@dataclass(frozen=True, slots=True)
class FoundDatabase:
    """What the catalogue of one database shows, read in one snapshot.

    `indexes` are the valid ones; `broken` ones are not, or not yet, and stand with their tables.
    """

    schema: FoundSchema
    schemas: frozenset[str]
    indexes: frozenset[str]
    broken: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Phase:
    """Statements that take effect together, or one that cannot run in a transaction (`online`).

    `repairs` names the broken index that the last statement takes away. It is looked at again
    after the first statement, which keeps builders out, and left alone if it is whole by then.
    """

    statements: tuple[Statement, ...]
    online: bool = False
    repairs: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The statements as they are run."""
        return tuple(statement.text for statement in self.statements)

    @property
    def script(self) -> tuple[str, ...]:
        """The same as a program without transactions of its own would run them."""
        return self.texts if self.online else ("BEGIN", *self.texts, "COMMIT")


async def find(connection: Connection, names: Names) -> FoundDatabase:
    """Read what is there. One transaction, so that it also works through a pooler.

    One snapshot: another program may be adding tables and raising the version right now.
    """
    queries = statements(PACKAGE, "inspect")

    def text(name: str) -> str:
        return names.render(queries[name]).text

    async with transaction(connection, SNAPSHOT):
        (row,) = await connection.fetch(
            text("catalogue"), names.shared, names.own, sorted(SHARED_TABLES), timeout=STATEMENT_S
        )
        tables = frozenset(row["tables"])
        indexes = await connection.fetch(text("indexes"), names.shared, timeout=STATEMENT_S)
        versions: list[asyncpg.Record] = []
        if BOOKKEEPING in tables:
            versions = await connection.fetch(text("shared_versions"), timeout=STATEMENT_S)
        own_version = None
        if row["own_tables"]:
            own_version = await connection.fetchval(text("own_version"), timeout=STATEMENT_S)
    return FoundDatabase(
        FoundSchema(
            where=names.where,
            tables=tables,
            versions=tuple(version["version"] for version in versions),
            own_version=own_version,
            sharded=row["sharded"],
        ),
        schemas=frozenset(row["schemas"]),
        indexes=frozenset(index["name"] for index in indexes if index["valid"]),
        broken={index["name"]: index["table"] for index in indexes if not index["valid"]},
    )


def phases(found: FoundDatabase, names: Names) -> tuple[Phase, ...]:
    """What brings the database up to date; nothing if it is. Raises what `schema_steps` raises."""
    steps = schema_steps(found.schema)
    ordered: list[Phase] = []
    if steps.create:
        ordered.append(_creation(found, names))
    for version in steps.converge:
        ordered += _convergence(found, names, version)
    for version in steps.own:
        ordered.append(_own(found, names, version))
    return tuple(ordered)


def _creation(found: FoundDatabase, names: Names) -> Phase:
    """The whole shared schema in one transaction. Nothing is in use yet, so nothing is online."""
    bookkeeping = statements(PACKAGE, "record")
    chosen = list(statements(PACKAGE, f"shared_{OLDEST_CONVERGED}").values())
    for version in range(OLDEST_CONVERGED + 1, SCHEMA_VERSION + 1):
        chosen += [
            Statement(statement.name, statement.text.replace(ONLINE, " "))
            for statement in statements(PACKAGE, f"shared_{version}").values()
        ]
    chosen.append(bookkeeping["insert_shared_version"])
    if names.shared not in found.schemas:
        chosen.insert(0, bookkeeping["create_shared_schema"])
    return Phase(_rendered(chosen, names, SCHEMA_VERSION))


def _convergence(found: FoundDatabase, names: Names, version: int) -> Iterable[Phase]:
    """What one version adds, skipping an index that is there and replacing one that is broken.

    A statement that builds an index bears the index's name.
    """
    bookkeeping = statements(PACKAGE, "record")
    for statement in statements(PACKAGE, f"shared_{version}").values():
        if statement.name in found.indexes:
            continue
        if statement.name in found.broken:
            yield _repair(found, names, statement.name)
        yield Phase((names.render(statement),), online=ONLINE in statement.text)
    yield Phase(_rendered([bookkeeping["raise_shared_version"]], names, version))


def _repair(found: FoundDatabase, names: Names, index: str) -> Phase:
    bookkeeping = statements(PACKAGE, "record")
    places = {
        "table": quote_identifier(found.broken[index]),
        "index": quote_identifier(index),
    }
    needed = ("keep_builders_out", "bound_waits", "drop_broken_index")
    repair = tuple(names.render(bookkeeping[name], **places) for name in needed)
    return Phase(repair, repairs=index)


def _own(found: FoundDatabase, names: Names, version: int) -> Phase:
    bookkeeping = statements(PACKAGE, "record")
    chosen = [*statements(PACKAGE, f"own_{version:03}").values(), bookkeeping["insert_own_version"]]
    if version == 1 and names.own not in found.schemas:
        chosen.insert(0, bookkeeping["create_own_schema"])
    return Phase(_rendered(chosen, names, version))


def _rendered(chosen: Iterable[Statement], names: Names, version: int) -> tuple[Statement, ...]:
    return tuple(names.render(statement, version=str(version)) for statement in chosen)
