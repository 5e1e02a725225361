"""The transaction in which a command about workflows is carried out."""

from collections.abc import Collection, Mapping, Sequence
from sqlite3 import Row
from typing import Any

from perdure.model.ids import WorkflowId
from perdure.store.commands import Standing
from perdure.store.sqlite.concern import Access, packed
from perdure.store.sqlite.starts import waiting_since_ms
from perdure.store.sqlite.transaction import Transaction


class Work:
    """Statements of one command. Nobody else writes while it lasts.

    `standing` is how the workflows stand that the command names, those that exist. `caller` is the
    id of the run that gives it.
    """

    def __init__(
        self, access: Access, transaction: Transaction, caller: WorkflowId | None = None
    ) -> None:
        self._queries = access.queries
        self._transaction = transaction
        self.application = access.application
        self.now_ms = transaction.now_ms
        self.caller = caller
        self.standing: Mapping[WorkflowId, Standing] = {}

    @property
    def waiting_since_ms(self) -> int:
        """When the workflows enqueued now were created."""
        return waiting_since_ms(self._transaction, self._queries)

    def rows(self, query: str, **parameters: Any) -> list[Row]:
        """The rows of a named query."""
        return self._transaction.rows(self._queries[query], parameters)

    def change(self, query: str, **parameters: Any) -> int:
        """Execute a named query and return how many rows it inserted, changed or deleted."""
        return self._transaction.change(self._queries[query], parameters)

    def look(self, ids: Sequence[WorkflowId]) -> None:
        """See how these stand, which the command names."""
        found = self._found("standing_runs", ids)
        self.standing = {each: found[each] for each in ids if each in found}

    def tree(self, ids: Sequence[WorkflowId]) -> dict[WorkflowId, Standing]:
        """How those of the named workflows stand that exist, and all their descendants behind."""
        found = {each: self.standing[each] for each in ids if each in self.standing}
        level: Collection[WorkflowId] = found.keys()
        while level:
            children = {
                workflow_id: standing
                for workflow_id, standing in self._found("standing_children", level).items()
                if workflow_id not in found
            }
            found |= children
            level = children.keys()
        return found

    def _found(self, query: str, ids: Collection[WorkflowId]) -> dict[WorkflowId, Standing]:
        return {
            WorkflowId(row["workflow_uuid"]): Standing(
                row["status"], row["owner_xid"], row["creator_xid"]
            )
            for row in self.rows(query, ids=packed(ids))
        }
