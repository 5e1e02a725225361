"""Looking at, and tampering with, the rows of a database behind its engines' backs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from perdure.model.wire import INTERNAL_QUEUE
from tests.support.backdoor import Backdoor, Row

Found = list[Row]


class BehindBacks:
    """What a test reads and changes with plain SQL; a subclass gives the way in."""

    @property
    def backdoor(self) -> Backdoor:
        """Plain SQL on the database."""
        raise NotImplementedError

    async def rows(self, sql: str, *args: Any) -> Found:
        """What the query returns."""
        return await self.backdoor.rows(sql, *args)

    async def find(self, workflow_id: str) -> Row | None:
        """The workflow's row, every column of it, or None."""
        found = await self.rows(
            "SELECT * FROM workflow_status WHERE workflow_uuid = ?", workflow_id
        )
        return found[0] if found else None

    async def status(self, workflow_id: str) -> Row:
        """The workflow's row, every column of it."""
        row = await self.find(workflow_id)
        assert row is not None, f"{workflow_id} has no row"
        return row

    async def state(self, workflow_id: str) -> str:
        """The workflow's status word."""
        return str((await self.status(workflow_id))["status"])

    async def count(self) -> int:
        """How many workflows have a row."""
        return int((await self.rows("SELECT count(*) AS n FROM workflow_status"))[0]["n"])

    async def steps(self, workflow_id: str) -> Found:
        """The workflow's step rows in order, every column of them."""
        return await self.rows(
            "SELECT * FROM operation_outputs WHERE workflow_uuid = ? ORDER BY function_id",
            workflow_id,
        )

    async def history(self, workflow_id: str) -> list[tuple[int, str]]:
        """The ids and names of the workflow's recorded steps."""
        return [(row["function_id"], row["function_name"]) for row in await self.steps(workflow_id)]

    async def links(self, workflow_id: str) -> list[tuple[int, str, str | None]]:
        """The id, name and child of each of the workflow's recorded steps."""
        return [
            (row["function_id"], row["function_name"], row["child_workflow_id"])
            for row in await self.steps(workflow_id)
        ]

    async def input(self, workflow_id: str) -> str | None:
        """The stored text of the workflow's arguments."""
        return await self._payload("workflow_input", "inputs", workflow_id)

    async def output(self, workflow_id: str) -> str | None:
        """The stored text of the workflow's result."""
        return await self._payload("workflow_output", "output", workflow_id)

    async def error(self, workflow_id: str) -> dict[str, Any] | None:
        """The stored envelope of the workflow's error."""
        text = await self._payload("workflow_output", "error", workflow_id)
        return None if text is None else dict(json.loads(text))

    async def _payload(self, table: str, column: str, workflow_id: str) -> str | None:
        found = await self.rows(
            f"SELECT {column} AS text FROM {table} WHERE workflow_uuid = ?", workflow_id
        )
        return found[0]["text"] if found else None

    async def hand_back(self, workflow_id: str) -> None:
        """Make the row claimable, as a takeover from a dead process (and a rewind) leaves it."""
        # First: as soon as it is claimable it may be run again and have its next outcome.
        await self.backdoor.run("DELETE FROM workflow_output WHERE workflow_uuid = ?", workflow_id)
        await self.backdoor.run(
            "UPDATE workflow_status SET status = 'ENQUEUED', owner_xid = NULL,"
            " started_at_epoch_ms = NULL, completed_at = NULL,"
            " queue_name = COALESCE(queue_name, ?) WHERE workflow_uuid = ?",
            INTERNAL_QUEUE,
            workflow_id,
        )

    async def cut(self, workflow_id: str, step_id: int) -> None:
        """Forget the steps from that id on."""
        await self.backdoor.run(
            "DELETE FROM operation_outputs WHERE workflow_uuid = ? AND function_id >= ?",
            workflow_id,
            step_id,
        )

    async def forget(self, workflow_id: str, step_ids: Iterable[int]) -> None:
        """Forget these steps alone, as if the process had died before it recorded them."""
        for step_id in step_ids:
            await self.backdoor.run(
                "DELETE FROM operation_outputs WHERE workflow_uuid = ? AND function_id = ?",
                workflow_id,
                step_id,
            )

    async def rename_step(self, workflow_id: str, step_id: int, name: str) -> None:
        """Make a recorded step look as if other code had recorded it."""
        await self.backdoor.run(
            "UPDATE operation_outputs SET function_name = ?"
            " WHERE workflow_uuid = ? AND function_id = ?",
            name,
            workflow_id,
            step_id,
        )

    async def end_elsewhere(self, workflow_id: str, output: str) -> None:
        """What another execution of the workflow does when it has returned that text."""
        await self.backdoor.run(
            "INSERT INTO workflow_output (workflow_uuid, output, retention_timestamp)"
            " VALUES (?, ?, 1)",
            workflow_id,
            json.dumps(output),
        )
        await self.backdoor.run(
            "UPDATE workflow_status SET status = 'SUCCESS', owner_xid = NULL"
            " WHERE workflow_uuid = ?",
            workflow_id,
        )

    async def cancel_elsewhere(self, workflow_id: str) -> None:
        """Cancel the row as another process would."""
        await self.backdoor.run(
            "UPDATE workflow_status SET status = 'CANCELLED', owner_xid = NULL, queue_name = NULL,"
            " started_at_epoch_ms = NULL WHERE workflow_uuid = ?",
            workflow_id,
        )
