"""Archives as both stores read and write them: rows of the database as records, and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from perdure.errors import DatabaseRejected, WorkflowError, WorkflowIdInUse
from perdure.model.ids import WorkflowId
from perdure.model.management import Import, Managed
from perdure.model.transfer import (
    FORMAT,
    FORMAT_VERSION,
    Archive,
    EventRecord,
    MessageRecord,
    PublishedRecord,
    StepRecord,
    StreamRecord,
    WorkflowRecord,
)
from perdure.store.rows import Row

Record = TypeVar("Record", bound=msgspec.Struct)

PARTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "steps": StepRecord,
    "events": EventRecord,
    "event_history": PublishedRecord,
    "stream_values": StreamRecord,
    "messages": MessageRecord,
}
"""What belongs to a workflow and how it is kept: `exported_<part>` reads it, `import_<part>` writes
it. The appends are beside."""


def archives(
    ids: Sequence[WorkflowId],
    workflows: Sequence[Mapping[str, Any]],
    parts: Mapping[str, Sequence[Mapping[str, Any]]],
    appends: Sequence[Mapping[str, Any]],
) -> list[Archive]:
    """The archives of those that exist, in the order of the ids, of the rows of all together."""
    found: dict[str, dict[str, list[Any]]] = {}
    for name, rows in parts.items():
        for row in rows:
            of_workflow = found.setdefault(row["workflow_id"], {})
            of_workflow.setdefault(name, []).append(_record(row, PARTS[name]))
    for row in appends:
        found.setdefault(row["workflow_id"], {}).setdefault("appends", []).append(row["append_id"])
    records = {row["workflow_id"]: _record(row, WorkflowRecord) for row in workflows}
    return [
        Archive(
            format=FORMAT,
            version=FORMAT_VERSION,
            workflow=records[workflow_id],
            **{name: tuple(kept) for name, kept in found.get(workflow_id, {}).items()},
        )
        for workflow_id in ids
        if workflow_id in records
    ]


def _record(row: Mapping[str, Any], kind: type[Record]) -> Record:
    values = dict(row)
    workflow_id = values["workflow_id"]
    if kind is not WorkflowRecord:
        del values["workflow_id"]
    try:
        # SQLite has whole numbers for truth values.
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise DatabaseRejected(
            f"workflow {workflow_id!r} cannot be exported, a row of it is none that can be stored: "
            f"{error}"
        ) from error


def to_write(command: Import, standing: Iterable[Row]) -> list[Archive] | WorkflowError:
    """What is left to be written, or why nothing is; `standing` are the ids that exist, and who
    created them. What the command's own creator did was written by a try before."""
    creators = {row["workflow_id"]: row["creator"] for row in standing}
    wanted = []
    for archive in command.archives:
        workflow_id = archive.workflow.workflow_id
        if workflow_id not in creators:
            wanted.append(archive)
        elif not command.skip and creators[workflow_id] != command.creator:
            return WorkflowIdInUse(workflow_id)
    return wanted


def imported(command: Import, wanted: Sequence[Archive], standing: Iterable[Row]) -> Managed:
    """What a command names as its result: what it writes, and what a try before did."""
    written = {archive.workflow.workflow_id for archive in wanted}
    written |= {row["workflow_id"] for row in standing if row["creator"] == command.creator}
    ids = (archive.workflow.workflow_id for archive in command.archives)
    return Managed(tuple(each for each in ids if each in written))


def texts(wanted: Sequence[Archive]) -> dict[str, str]:
    """For each kind of row there is, all of them as the text of a JSON array."""
    found: dict[str, list[Any]] = {"workflows": [archive.workflow for archive in wanted]}
    for archive in wanted:
        key = {"workflow_id": archive.workflow.workflow_id}
        for name in PARTS:
            rows = getattr(archive, name)
            found.setdefault(name, []).extend(msgspec.to_builtins(row) | key for row in rows)
        appends = found.setdefault("appends", [])
        appends.extend({**key, "append_id": append_id} for append_id in archive.appends)
    return {name: msgspec.json.encode(rows).decode() for name, rows in found.items() if rows}
