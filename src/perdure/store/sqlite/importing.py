"""Workflows as documents: bringing them in."""

from collections.abc import Mapping

from perdure.errors import MessageIdInUse, QueueDeduplicated, WorkflowError
from perdure.model.management import Import, Managed
from perdure.store.archives import PARTS, imported, texts, to_write
from perdure.store.sqlite.changing import remove
from perdure.store.sqlite.concern import packed
from perdure.store.sqlite.work import Work


def import_workflows(work: Work, command: Import) -> Managed:
    """Write the rows of workflows, or none."""
    standing = work.rows("creators", ids=packed(work.standing))
    wanted = to_write(command, standing)
    if isinstance(wanted, WorkflowError):
        return Managed(refusal=wanted)
    if wanted:
        rows = texts(wanted)
        obstacle = _obstacle(work, rows)
        if obstacle is not None:
            return Managed(refusal=obstacle)
        remove(work, [archive.workflow.workflow_id for archive in wanted])
        workflows = rows["workflows"]
        work.change("import_workflows", rows=workflows, creator=command.creator)
        work.change("import_inputs", rows=workflows, now=work.now_ms)
        work.change("import_outputs", rows=workflows, now=work.now_ms)
        for part in (*PARTS, "appends"):
            if part in rows:
                stamp = {"now": work.now_ms} if part == "steps" else {}
                work.change(f"import_{part}", rows=rows[part], **stamp)
    return imported(command, wanted, standing)


def _obstacle(work: Work, rows: Mapping[str, str]) -> WorkflowError | None:
    for row in work.rows("deduplication_obstacle", rows=rows["workflows"]):
        return QueueDeduplicated(
            row["workflow_id"], row["queue_name"], row["deduplication_id"], row["holder"]
        )
    for row in work.rows("message_obstacle", rows=rows.get("messages", "[]")):
        return MessageIdInUse(row["workflow_id"], row["message_id"])
    return None
