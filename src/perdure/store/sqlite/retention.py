"""Removing workflows that ended long ago."""

from typing import Any, Final

from perdure.model.retention import Expired, Purged
from perdure.store.commands import DELETIONS
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.transaction import Transaction

SIGHT: Final = 10_000
"""How many ended rows one call looks at."""

Asked = dict[str, Any]


class Retention(Concern):
    """`RetentionStore`."""

    async def purge(self, wanted: Expired, since_ms: int, limit: int) -> Purged:
        """See `perdure.ports.store.RetentionStore.purge`."""

        def work(transaction: Transaction) -> Purged:
            asked = self._asked(wanted, since_ms, transaction)
            asked["limit"] = limit
            found = transaction.rows(self._queries["expired_workflows"], asked)
            ids = packed(row["workflow_uuid"] for row in found)
            for query in DELETIONS:
                transaction.change(self._queries[query], {"ids": ids})
            if len(found) < limit:
                return _looked(len(found), asked)
            return Purged(len(found), found[-1]["completed_at"])

        return await self._database.write(work)

    async def expired(self, wanted: Expired, since_ms: int) -> Purged:
        """See `perdure.ports.store.RetentionStore.expired`."""

        def work(connection: Connection) -> Purged:
            asked = self._asked(wanted, since_ms, connection)
            ((number,),) = connection.rows(self._queries["count_expired"], asked)
            return _looked(number, asked)

        return await self._database.read(work)

    async def kept_since_ms(self, wanted: Expired, number: int) -> int | None:
        """See `perdure.ports.store.RetentionStore.kept_since_ms`."""
        asked = {**self._conditions(wanted), "number": number}

        def work(connection: Connection) -> int | None:
            found = connection.row(self._queries["kept_since"], asked)
            return None if found is None else found["completed_at"]

        return await self._database.read(work)

    async def forget_claims(self, before_ms: int, limit: int) -> int:
        """See `perdure.ports.store.RetentionStore.forget_claims`."""

        def work(transaction: Transaction) -> int:
            asked = {"before": before_ms, "limit": limit, "now": transaction.now_ms}
            return transaction.change(self._queries["forget_claims"], asked)

        return await self._database.write(work)

    def _conditions(self, wanted: Expired) -> Asked:
        return {
            "application": self._application,
            "before": wanted.before_ms,
            "states": packed(state.value for state in wanted.states),
            "names": packed(wanted.names),
        }

    def _asked(self, wanted: Expired, since_ms: int, source: Transaction | Connection) -> Asked:
        asked = {**self._conditions(wanted), "since": since_ms, "sight": SIGHT}
        horizon = source.row(self._queries["expired_horizon"], asked)
        asked["horizon"] = wanted.before_ms - 1 if horizon is None else horizon["completed_at"]
        return asked


def _looked(number: int, asked: Asked) -> Purged:
    """What was found, where all that was looked at has been dealt with."""
    following_ms = asked["horizon"] + 1
    return Purged(number, following_ms if following_ms < asked["before"] else None)
