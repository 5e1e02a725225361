"""Ended workflows that run again from a step."""

from perdure.model.management import Managed, Rewind
from perdure.model.wire import INTERNAL_QUEUE, PORTABLE_JSON, STREAM_CLOSED
from perdure.store.forks import CUTS, no_point, not_ended, question, was_rewound
from perdure.store.postgres.batch import packed_list
from perdure.store.postgres.forking import point_of
from perdure.store.postgres.work import Work


async def rewind(work: Work, command: Rewind) -> Managed:
    """Remove what was recorded from the step on, and enqueue the workflow."""
    workflow_id = command.workflow_id
    if was_rewound(command, work.standing):
        return Managed((workflow_id,))
    refused = not_ended(workflow_id, work.standing)
    if refused is not None:
        return Managed(refusal=refused)
    point = await point_of(work, question(workflow_id, command.point))
    if point is None:
        return Managed(refusal=no_point(workflow_id, command.point))
    for query in CUTS:
        await work.fetch(query, workflow_id, point)
    await work.fetch("reopen_streams", workflow_id, point, STREAM_CLOSED, PORTABLE_JSON)
    await work.fetch("delete_outputs", *packed_list([workflow_id]))
    await work.fetch(
        "rewind",
        workflow_id,
        command.queue_name or INTERNAL_QUEUE,
        command.partition_key,
        command.version,
        command.token,
        work.offset_ms,
    )
    return Managed((workflow_id,))
