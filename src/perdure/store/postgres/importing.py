"""Workflows as documents: bringing them in."""

from collections.abc import Mapping

from perdure.errors import MessageIdInUse, QueueDeduplicated, WorkflowError
from perdure.model.management import Import, Managed
from perdure.store.archives import PARTS, imported, texts, to_write
from perdure.store.postgres.batch import packed_list
from perdure.store.postgres.changing import remove
from perdure.store.postgres.work import Work


async def import_workflows(work: Work, command: Import) -> Managed:
    """Write the rows of workflows, or none."""
    standing = await work.fetch("creators", *packed_list(list(work.standing)))
    wanted = to_write(command, standing)
    if isinstance(wanted, WorkflowError):
        return Managed(refusal=wanted)
    if wanted:
        rows = texts(wanted)
        obstacle = await _obstacle(work, rows)
        if obstacle is not None:
            return Managed(refusal=obstacle)
        await remove(work, [archive.workflow.workflow_id for archive in wanted])
        workflows = rows["workflows"]
        await work.fetch("import_workflows", workflows, command.creator)
        await work.fetch("import_inputs", workflows, work.offset_ms)
        await work.fetch("import_outputs", workflows, work.offset_ms)
        for part in (*PARTS, "appends"):
            if part in rows:
                stamp = [work.offset_ms] if part == "steps" else []
                await work.fetch(f"import_{part}", rows[part], *stamp)
    return imported(command, wanted, standing)


async def _obstacle(work: Work, rows: Mapping[str, str]) -> WorkflowError | None:
    for row in await work.fetch("deduplication_obstacle", rows["workflows"]):
        return QueueDeduplicated(
            row["workflow_id"], row["queue_name"], row["deduplication_id"], row["holder"]
        )
    for row in await work.fetch("message_obstacle", rows.get("messages", "[]")):
        return MessageIdInUse(row["workflow_id"], row["message_id"])
    return None
