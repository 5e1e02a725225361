"""What every concern of the store works with."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import LeaseLost
from perdure.model.ids import ExecutorId
from perdure.ports.clock import Clock
from perdure.store.sql import Queries
from perdure.store.sqlite.database import Database
from perdure.store.sqlite.settings import SqliteSettings
from perdure.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Access:
    """A database, the queries on it, and in whose name they are made, if in any application's.

    `path` is None for a database in memory, which has no connections but its own.
    """

    path: Path | None
    database: Database
    queries: Queries
    application: str | None
    application_id: str
    clock: Clock
    settings: SqliteSettings


class Concern:
    """One part of the store's port."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._database = access.database
        self._queries = access.queries
        self._application = access.application

    def _require_lease(self, transaction: Transaction, executor_id: ExecutorId) -> None:
        boot = executor_id.rpartition("/")[2]
        held = transaction.row(self._queries["held_lease"], {"boot": boot, "executor": executor_id})
        if held is None:
            raise LeaseLost(f"the lease of {executor_id} was taken over or never written")


def packed(values: Iterable[object]) -> str:
    """Any number of values as one parameter, which SQL takes apart with `json_each`."""
    return json.dumps(list(values))
