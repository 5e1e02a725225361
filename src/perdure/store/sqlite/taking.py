"""What both kinds of claims do inside their transaction: find rows, and take them."""

from collections.abc import Iterable, Sequence
from sqlite3 import Row
from typing import Any

from perdure.model.workflow import Claimant, ClaimedRun
from perdure.store import rows
from perdure.store.sqlite.concern import Access, packed
from perdure.store.sqlite.instants import later
from perdure.store.sqlite.transaction import Transaction

Taken = dict[str, Any]
"""A claimed row, as the claim leaves it."""


class Taking:
    """One claim under way."""

    def __init__(self, access: Access, transaction: Transaction, claimant: Claimant) -> None:
        self._queries = access.queries
        self._application = access.application
        self._transaction = transaction
        self._claimant = claimant
        self._claimable = {
            "application": access.application,
            "version": claimant.version,
            "keys": packed(claimant.keys),
        }

    def before(self) -> list[Taken]:
        """The rows that an earlier try under the same token took."""
        token = {"token": self._claimant.token}
        found = self._transaction.rows(self._queries["claimed_before"], token)
        return [_measured(dict(row), self._transaction.now_ms) for row in found]

    def first_of(self, queue_name: str, limit: int) -> list[Row]:
        """The first claimable rows of a queue, in the order of claims."""
        if limit <= 0:
            return []
        asked = {**self._claimable, "queue": queue_name, "limit": limit}
        return self._transaction.rows(self._queries["claim_candidates"], asked)

    def first_of_each(self, queue_name: str, partition_keys: Iterable[str]) -> list[Row]:
        """Where the first claimable row of each of these partitions is."""
        asked = {**self._claimable, "queue": queue_name, "partitions": packed(partition_keys)}
        return self._transaction.rows(self._queries["partition_firsts"], asked)

    def page_of(self, queue_name: str, partition_key: str, limit: int, offset: int) -> list[Row]:
        """Where the next claimable rows of a partition are, in the order of claims."""
        asked = {
            **self._claimable,
            "queue": queue_name,
            "partition": partition_key,
            "limit": limit,
            "offset": offset,
        }
        return self._transaction.rows(self._queries["partition_candidates"], asked)

    def in_places(self, places: Iterable[int]) -> list[Row]:
        """The rows in places that were found."""
        asked = {"places": packed(places)}
        return self._transaction.rows(self._queries["chosen_candidates"], asked)

    def take(self, found: Iterable[Row], at_ms: int, *, rate_limited: bool) -> list[Taken]:
        """Make these rows the claimant's, all with one time of start."""
        taken = [self._taken(row) for row in found]
        parameters = [self._claim(row, at_ms, rate_limited=rate_limited) for row in taken]
        self._transaction.change_each(self._queries["claim_run"], parameters)
        return taken

    def _taken(self, row: Row) -> Taken:
        taken = dict(row)
        taken["owner_xid"] = self._claimant.token
        taken["recovery_attempts"] = (row["recovery_attempts"] or 0) + 1
        now_ms = self._transaction.now_ms
        if row["workflow_deadline_epoch_ms"] is None:
            taken["workflow_deadline_epoch_ms"] = later(now_ms, row["workflow_timeout_ms"])
        return _measured(taken, now_ms)

    def _claim(self, row: Taken, at_ms: int, *, rate_limited: bool) -> tuple[Any, ...]:
        return (
            row["workflow_uuid"],
            self._claimant.token,
            self._claimant.executor_id,
            self._claimant.version,
            self._application,
            at_ms,
            row["recovery_attempts"],
            row["workflow_deadline_epoch_ms"],
            rate_limited,
        )


def claimed_runs(taken: Sequence[Taken]) -> list[ClaimedRun]:
    """What a claim returns of the rows it took, in its order."""
    return [rows.claimed_run(row) for row in sorted(taken, key=_claim_order)]


def _claim_order(row: Taken) -> tuple[int, int, str]:
    return (row["priority"], row["created_at"], row["workflow_uuid"])


def _measured(row: Taken, now_ms: int) -> Taken:
    deadline_ms = row["workflow_deadline_epoch_ms"]
    row["deadline_left_ms"] = None if deadline_ms is None else deadline_ms - now_ms
    return row
