"""Commands that change rows as they stand: cancel, resume, delete, set a delay or attributes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from perdure.errors import WorkflowBusy
from perdure.model.ids import WorkflowId
from perdure.model.management import (
    Cancel,
    Command,
    Delete,
    Managed,
    Resume,
    SetAttributes,
    SetDelay,
)
from perdure.model.wire import INTERNAL_QUEUE
from perdure.store.commands import DELETIONS, delayed, missing, named, without_outcome
from perdure.store.postgres.batch import packed_list
from perdure.store.postgres.work import Work


async def cancel(work: Work, command: Cancel) -> Managed:
    """Cancel what has no outcome."""
    ids = named(command)
    found = await work.tree(ids) if command.children else work.standing
    return await _changed(
        work,
        "cancel",
        without_outcome(found),
        work.offset_ms,
    )


async def resume(work: Work, command: Resume) -> Managed:
    """Enqueue what has no outcome, if all of them exist."""
    refused = missing(command.ids, work.standing)
    if refused is not None:
        return refused
    return await _changed(
        work,
        "resume",
        without_outcome(work.standing),
        work.offset_ms,
        command.queue_name or INTERNAL_QUEUE,
    )


async def delete(work: Work, command: Delete) -> Managed:
    """Remove every row of them, unless the caller's are among them."""
    ids = named(command)
    found = tuple(await work.tree(ids) if command.children else work.standing)
    if work.caller in found:
        return Managed(refusal=WorkflowBusy(work.caller))
    await remove(work, found)
    return Managed(found)


async def remove(work: Work, ids: Sequence[WorkflowId]) -> None:
    """Remove every row of these workflows, whose own rows are locked."""
    if ids:
        listed = packed_list(ids)
        for query in DELETIONS:
            await work.fetch(query, *listed)


async def set_delay(work: Work, command: SetDelay) -> Managed:
    """Move the instant of those that are DELAYED."""
    return await _changed(
        work,
        "set_delay",
        delayed(work.standing),
        work.offset_ms,
        command.delay_ms,
        command.until_ms,
    )


async def set_attributes(work: Work, command: SetAttributes) -> Managed:
    """Replace the attributes, or merge into them."""
    workflow_id = command.workflow_id
    refused = missing([workflow_id], work.standing)
    if refused is not None:
        return refused
    query = "merge_attributes" if command.merge else "set_attributes"
    await work.fetch(query, workflow_id, command.attributes, work.offset_ms)
    return Managed((workflow_id,))


async def _changed(
    work: Work, query: str, ids: tuple[WorkflowId, ...], *arguments: object
) -> Managed:
    """All of these are changed, for they are locked and stand as they were seen."""
    if ids:
        await work.fetch(query, *packed_list(ids), *arguments)
    return Managed(ids)


CHANGES: Final[dict[type[Command], Callable[[Work, Any], Awaitable[Managed]]]] = {
    Cancel: cancel,
    Resume: resume,
    Delete: delete,
    SetDelay: set_delay,
    SetAttributes: set_attributes,
}
"""The commands that are carried out here."""
