"""Workflows as documents: taking them out."""

from collections.abc import Sequence
from typing import Any

from perdure.model.ids import WorkflowId
from perdure.model.transfer import Archive
from perdure.store.archives import PARTS, archives
from perdure.store.postgres.batch import packed_list
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.lanes import SNAPSHOT, Transaction


class Exports(Concern):
    """`TransferStore`."""

    async def export_workflows(
        self, ids: Sequence[WorkflowId], *, children: bool = False
    ) -> list[Archive]:
        """See `perdure.ports.store.TransferStore.export_workflows`."""
        async with self._database.transaction(SNAPSHOT) as transaction:
            wanted = list(dict.fromkeys(ids))
            level = wanted if children else []
            while level:
                found = await self._of(transaction, "child_ids", level)
                level = [WorkflowId(row["workflow_id"]) for row in found]
                level = [each for each in level if each not in set(wanted)]
                wanted = [*wanted, *level]
            workflows = await self._of(transaction, "exported_workflows", wanted)
            parts = {
                part: await self._of(transaction, f"exported_{part}", wanted) for part in PARTS
            }
            appends = await self._of(transaction, "exported_appends", wanted)
        return archives(wanted, workflows, parts, appends)

    async def _of(
        self, transaction: Transaction, query: str, ids: Sequence[WorkflowId]
    ) -> list[dict[str, Any]]:
        found = await transaction.fetch(self._database.queries[query], *packed_list(ids))
        return [dict(row) for row in found]
