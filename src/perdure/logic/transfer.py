"""What a document must be to become a workflow, and what it becomes."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from perdure.errors import InvalidDocument
from perdure.model.status import ACTIVE, WorkflowState
from perdure.model.transfer import FORMAT, FORMAT_VERSION, Archive, WorkflowRecord
from perdure.model.wire import FOREIGN_INTERNAL_QUEUE, INTERNAL_QUEUE

_KEYS: Final[dict[str, Callable[[Any], Hashable]]] = {
    "steps": lambda row: row.step_id,
    "events": lambda row: row.key,
    "event_history": lambda row: (row.step_id, row.key),
    "stream_values": lambda row: (row.key, row.offset),
    "messages": lambda row: row.message_id,
    "appends": lambda row: row,
}
"""By what the rows of each kind differ."""


def archives_of(documents: Sequence[Mapping[str, Any]]) -> list[Archive]:
    """Read documents, each as `Archive` describes it; `InvalidDocument` names what is wrong where.

    Nothing is left to be found wrong by a database, but for what stands in it.
    """
    archives = [_archive(f"$[{place}]", document) for place, document in enumerate(documents)]
    records = [archive.workflow for archive in archives]
    _refuse_twice("$", ".workflow.workflow_id", [record.workflow_id for record in records])
    held = [
        None if record.deduplication_id is None else (record.queue_name, record.deduplication_id)
        for record in records
    ]
    _refuse_twice("$", ".workflow.deduplication_id", held)
    messages = [message.message_id for archive in archives for message in archive.messages]
    _refuse_twice("$", ".messages", messages)
    return archives


def arrived(record: WorkflowRecord) -> WorkflowRecord:
    """The row as it begins in another database, where nobody runs it: who was running waits again.

    Its attempts stay counted, so that one that ends its processes is not carried about for ever.
    """
    if record.state not in ACTIVE:
        return record
    queue = record.queue_name
    if not queue or queue == FOREIGN_INTERNAL_QUEUE:
        queue = INTERNAL_QUEUE
    state = record.state
    if state == WorkflowState.PENDING:
        state = WorkflowState.ENQUEUED
    return msgspec.structs.replace(record, state=state, queue_name=queue, started_at_ms=None)


def _archive(path: str, document: Mapping[str, Any]) -> Archive:
    if not isinstance(document, Mapping):
        raise InvalidDocument(path, f"expected an object, got {type(document).__name__}")
    _check_format(path, document)
    try:
        archive = msgspec.convert(document, Archive)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        raise InvalidDocument(path + where.rstrip("`"), reason) from error
    _check_workflow(f"{path}.workflow", archive.workflow)
    for name, key in _KEYS.items():
        _refuse_twice(f"{path}.{name}", "", [key(row) for row in getattr(archive, name)])
    for where, text in _texts(path, msgspec.to_builtins(archive)):
        _check_text(where, text)
    return archive


def _check_format(path: str, document: Mapping[str, Any]) -> None:
    if document.get("format") != FORMAT:
        raise InvalidDocument(f"{path}.format", f"expected {FORMAT!r}: it is no exported workflow")
    if document.get("version") != FORMAT_VERSION:
        raise InvalidDocument(
            f"{path}.version",
            f"expected {FORMAT_VERSION}, got {document.get('version')!r}: another version of the "
            "library wrote it",
        )


def _check_workflow(path: str, record: WorkflowRecord) -> None:
    if record.state not in WorkflowState.__members__:
        known = ", ".join(WorkflowState)
        raise InvalidDocument(f"{path}.state", f"{record.state!r} is none of {known}")
    if record.attributes is not None:
        where = f"{path}.attributes"
        try:
            attributes = json.loads(record.attributes, parse_constant=_refuse_constant)
            texts = list(_texts(where, attributes))
        except (ValueError, RecursionError) as error:
            raise InvalidDocument(where, f"no JSON text: {error}") from error
        for _, text in texts:
            _check_text(where, text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _refuse_twice(path: str, below: str, keys: Iterable[Hashable | None]) -> None:
    seen: set[Hashable] = set()
    for place, key in enumerate(keys):
        if key is not None and key in seen:
            raise InvalidDocument(f"{path}[{place}]{below}", f"{key!r} stands twice")
        seen.add(key)


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every text in a value of JSON's kinds, with the way to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield path, key
            yield from _texts(f"{path}.{key}", each)
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from _texts(f"{path}[{place}]", each)


def _check_text(path: str, text: str) -> None:
    """What Postgres cannot store, nowhere can be, so that a workflow can be brought anywhere."""
    if "\0" in text:
        raise InvalidDocument(path, "it holds the character NUL, which a database cannot store")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidDocument(
            path, "it holds half a character, which UTF-8 has no form of"
        ) from error
