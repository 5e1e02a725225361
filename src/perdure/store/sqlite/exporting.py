"""Workflows as documents: taking them out."""

from collections.abc import Sequence
from sqlite3 import Row
from typing import Any

from perdure.model.ids import WorkflowId
from perdure.model.transfer import Archive
from perdure.store.archives import PARTS, archives
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.connection import Connection


class Exports(Concern):
    """`TransferStore`."""

    async def export_workflows(
        self, ids: Sequence[WorkflowId], *, children: bool = False
    ) -> list[Archive]:
        """See `perdure.ports.store.TransferStore.export_workflows`."""

        def work(connection: Connection) -> list[Archive]:
            def rows(query: str, of: Sequence[WorkflowId]) -> list[dict[str, Any]]:
                found: list[Row] = connection.rows(self._queries[query], {"ids": packed(of)})
                return [dict(row) for row in found]

            with connection.snapshot():
                wanted = list(dict.fromkeys(ids))
                level = wanted if children else []
                while level:
                    level = [WorkflowId(row["workflow_id"]) for row in rows("child_ids", level)]
                    level = [each for each in level if each not in set(wanted)]
                    wanted = [*wanted, *level]
                return archives(
                    wanted,
                    rows("exported_workflows", wanted),
                    {part: rows(f"exported_{part}", wanted) for part in PARTS},
                    rows("exported_appends", wanted),
                )

        return await self._database.read(work)
