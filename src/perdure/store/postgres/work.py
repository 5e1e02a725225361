"""The transaction in which a command about workflows is carried out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from perdure.model.ids import WorkflowId
from perdure.store.commands import Standing
from perdure.store.postgres.batch import packed_list
from perdure.store.postgres.concern import Access
from perdure.store.postgres.lanes import Record, Transaction


class Work:
    """Statements of one command. The rows it names are locked before it is carried out.

    `standing` is how they stand, those that exist; the run of the caller is among them only if the
    command names it. `caller` is the id of that run.
    """

    def __init__(
        self, access: Access, transaction: Transaction, caller: WorkflowId | None = None
    ) -> None:
        self._queries = access.database.queries
        self._transaction = transaction
        self.application = access.application
        self.offset_ms = access.database.offset_ms
        self.caller = caller
        self.standing: Mapping[WorkflowId, Standing] = {}

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        """The rows of a named query."""
        return await self._transaction.fetch(self._queries[query], *arguments)

    async def lock(self, ids: Collection[WorkflowId]) -> dict[WorkflowId, Standing]:
        """How these stand that exist, locked in the order of their ids until the end."""
        return _standing(await self.fetch("standing_runs", *packed_list(list(ids))))

    async def tree(self, ids: Sequence[WorkflowId]) -> dict[WorkflowId, Standing]:
        """How those of the named workflows stand that exist, and all their descendants behind.

        Level by level, each level locked before the next is looked for: a parent that is locked
        cannot start a child, and whoever began to start one before has done so by then.
        """
        found = {each: self.standing[each] for each in ids if each in self.standing}
        level: Collection[WorkflowId] = found.keys()
        while level:
            rows = await self.fetch("standing_children", *packed_list(list(level)))
            children = {
                workflow_id: standing
                for workflow_id, standing in _standing(rows).items()
                if workflow_id not in found
            }
            found |= children
            level = children.keys()
        return found


def _standing(rows: Sequence[Record]) -> dict[WorkflowId, Standing]:
    return {
        WorkflowId(row["workflow_uuid"]): Standing(
            row["status"], row["owner_xid"], row["creator_xid"]
        )
        for row in rows
    }
