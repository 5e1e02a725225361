"""Ended workflows that run again from a step."""

from perdure.model.management import Managed, Rewind
from perdure.model.wire import INTERNAL_QUEUE, PORTABLE_JSON, STREAM_CLOSED
from perdure.store.forks import CUTS, no_point, not_ended, question, was_rewound
from perdure.store.sqlite.concern import packed
from perdure.store.sqlite.forking import point_of
from perdure.store.sqlite.work import Work


def rewind(work: Work, command: Rewind) -> Managed:
    """Remove what was recorded from the step on, and enqueue the workflow."""
    workflow_id = command.workflow_id
    if was_rewound(command, work.standing):
        return Managed((workflow_id,))
    refused = not_ended(workflow_id, work.standing)
    if refused is not None:
        return Managed(refusal=refused)
    point = point_of(work, question(workflow_id, command.point))
    if point is None:
        return Managed(refusal=no_point(workflow_id, command.point))
    for query in CUTS:
        work.change(query, id=workflow_id, point=point)
    work.change(
        "reopen_streams", id=workflow_id, point=point, closed=STREAM_CLOSED, format=PORTABLE_JSON
    )
    work.change("delete_outputs", ids=packed([workflow_id]))
    work.change(
        "rewind",
        id=workflow_id,
        queue=command.queue_name or INTERNAL_QUEUE,
        partition=command.partition_key,
        version=command.version,
        token=command.token,
        now=work.now_ms,
    )
    return Managed((workflow_id,))
