"""Commands that change rows as they stand: cancel, resume, delete, set a delay or attributes."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

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
from perdure.store.sqlite.concern import packed
from perdure.store.sqlite.instants import later
from perdure.store.sqlite.work import Work


def cancel(work: Work, command: Cancel) -> Managed:
    """Cancel what has no outcome."""
    ids = named(command)
    found = work.tree(ids) if command.children else work.standing
    return _changed(work, "cancel", without_outcome(found))


def resume(work: Work, command: Resume) -> Managed:
    """Enqueue what has no outcome, if all of them exist."""
    refused = missing(command.ids, work.standing)
    if refused is not None:
        return refused
    return _changed(
        work,
        "resume",
        without_outcome(work.standing),
        queue=command.queue_name or INTERNAL_QUEUE,
    )


def delete(work: Work, command: Delete) -> Managed:
    """Remove every row of them, unless the caller's are among them."""
    ids = named(command)
    found = tuple(work.tree(ids) if command.children else work.standing)
    if work.caller in found:
        return Managed(refusal=WorkflowBusy(work.caller))
    remove(work, found)
    return Managed(found)


def remove(work: Work, ids: Sequence[WorkflowId]) -> None:
    """Remove every row of these workflows."""
    if ids:
        listed = packed(ids)
        for query in DELETIONS:
            work.change(query, ids=listed)


def set_delay(work: Work, command: SetDelay) -> Managed:
    """Move the instant of those that are DELAYED."""
    until_ms = command.until_ms
    return _changed(
        work,
        "set_delay",
        delayed(work.standing),
        until=later(work.now_ms, command.delay_ms) if until_ms is None else until_ms,
    )


def set_attributes(work: Work, command: SetAttributes) -> Managed:
    """Replace the attributes, or merge into them."""
    workflow_id, attributes = command.workflow_id, command.attributes
    refused = missing([workflow_id], work.standing)
    if refused is not None:
        return refused
    if command.merge:
        ((standing,),) = work.rows("attributes", id=workflow_id)
        attributes = _text({**_parts(standing), **_parts(attributes)})
    work.change("set_attributes", id=workflow_id, attributes=attributes, now=work.now_ms)
    return Managed((workflow_id,))


def _parts(text: str | None) -> dict[str, msgspec.Raw]:
    """The values of an object as they are written; what is no object has none."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return {}


def _text(parts: dict[str, msgspec.Raw]) -> str:
    return msgspec.json.encode(parts).decode()


def _changed(work: Work, query: str, ids: tuple[WorkflowId, ...], **parameters: Any) -> Managed:
    """All of these are changed, for they stand as they were seen."""
    if ids:
        work.change(query, ids=packed(ids), now=work.now_ms, **parameters)
    return Managed(ids)


CHANGES: Final[dict[type[Command], Callable[[Work, Any], Managed]]] = {
    Cancel: cancel,
    Resume: resume,
    Delete: delete,
    SetDelay: set_delay,
    SetAttributes: set_attributes,
}
"""The commands that are carried out here."""
