"""The durable part: one workflow for the folder, a child for each file.

All of them stand in the archive's queue, which any number of processes may serve. The bodies decide
by nothing but recorded values, so that they can be replayed after any death. All work with files is
in `def` steps, which run in worker threads.
"""

import shutil
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from perdure import WorkflowHandle, current, gather, step, workflow
from perdure.cli.demo import listing, packing, summary
from perdure.cli.demo.listing import NotArchived, Page
from perdure.cli.demo.packing import ArchiveDamaged, Packed, SourceChanged
from perdure.cli.demo.places import queue_name
from perdure.cli.demo.summary import FileRecord, Summary
from perdure.cli.demo.tally import tally

WAVE = 32
"""Files enqueued together."""

WAVES = 8
"""Waves under way at most. The oldest is awaited first, so one long file holds the others up only
when the younger waves are done."""

_Wave = tuple[list[str], list[WorkflowHandle[FileRecord]]]
"""The names of files, and the workflows begun for them."""

DEATHS_ALLOWED = 1_000_000
"""Being killed is what the demonstration is for."""

ERRORS = (SourceChanged, ArchiveDamaged)
"""What the engine is told to give back as itself when it replays a failed step."""


@step(name="list")
def list_page(folder: str, leave_out: list[str], after: str | None) -> Page:
    """List one page of the folder."""
    return listing.list_page(folder, leave_out, after)


@step(name="compress")
def compress(folder: str, out: str, name: str) -> Packed:
    """Put a file into the archive."""
    return packing.pack(Path(folder), Path(out), name, current().cancellation)


@step(name="verify")
def verify(out: str, name: str, packed: Packed) -> None:
    """Read a file's archive back and compare."""
    packing.verify(Path(out), name, packed, current().cancellation)


@step(name="summarize", max_attempts=5)
def summarize(
    folder: str,
    out: str,
    records: Sequence[FileRecord],
    unreadable: Sequence[NotArchived],
    passed_over: Sequence[NotArchived],
) -> Summary:
    """Write the summary, and remove what killed processes left unfinished."""
    found = summary.summarize(records, unreadable, passed_over)
    summary.write(folder, Path(out), found, records, passed_over)
    shutil.rmtree(Path(out, packing.UNFINISHED), ignore_errors=True)
    return found


@workflow(name="demo.archive_file", max_recovery_attempts=DEATHS_ALLOWED)
async def archive_file(folder: str, out: str, name: str) -> FileRecord:
    """Archive one file; one that cannot be read or changes meanwhile is recorded as failed."""
    try:
        packed = await compress(folder, out, name)
        await verify(out, name, packed)
        record = FileRecord(name, packed, None)
    except (OSError, *ERRORS) as error:
        record = FileRecord(name, None, str(error))
    tally().settle(record.packed.size if record.packed else 0)
    return record


@workflow(name="demo.archive_folder", max_recovery_attempts=DEATHS_ALLOWED)
async def archive_folder(folder: str, out: str, leave_out: list[str]) -> Summary:
    """Archive every file of the folder; `leave_out` are paths in it that are not looked at.

    The files go through the archive's queue, to whichever process has time for them.
    """
    files: list[str] = []
    unreadable: list[NotArchived] = []
    passed_over: list[NotArchived] = []
    end: str | None = None
    while True:
        page = await list_page(folder, leave_out, end)
        files += page.files
        unreadable += page.unreadable
        passed_over += page.passed_over
        end = page.end
        if end is None:
            break
    tally().plan(len(files))

    enqueued = archive_file.options(queue=queue_name(folder, out))
    records: list[FileRecord] = []
    under_way: deque[_Wave] = deque()
    for first in range(0, len(files), WAVE):
        names = files[first : first + WAVE]
        begun = await enqueued.start_many([(folder, out, name) for name in names])
        under_way.append((names, begun))
        if len(under_way) == WAVES:
            records += await _records(*under_way.popleft())
    for wave in under_way:
        records += await _records(*wave)
    return await summarize(folder, out, records, unreadable, passed_over)


async def _records(
    names: Sequence[str], begun: Sequence[WorkflowHandle[FileRecord]]
) -> list[FileRecord]:
    """How these files ended; a child without a result, such as a cancelled one, has failed."""
    outcomes = await gather(*(each.result() for each in begun), return_exceptions=True)
    records = [
        outcome if isinstance(outcome, FileRecord) else FileRecord(name, None, str(outcome))
        for name, outcome in zip(names, outcomes, strict=True)
    ]
    tally().hear(len(records))
    return records
