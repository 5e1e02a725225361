"""How a whole run ended, and its file in the archive."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from perdure.cli.demo.listing import NotArchived
from perdure.cli.demo.packing import Packed

SUMMARY = "summary.json"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """How one file ended: what was stored, or why nothing was."""

    name: str
    packed: Packed | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run archived; sizes in bytes. `failed` are files and folders it could not read."""

    archived: int
    size: int
    stored: int
    failed: list[NotArchived]
    passed_over: int

    @property
    def ratio(self) -> float:
        """What is stored for one byte read."""
        return self.stored / self.size if self.size else 1.0


def summarize(
    records: Sequence[FileRecord],
    unreadable: Sequence[NotArchived],
    passed_over: Sequence[NotArchived],
) -> Summary:
    """The totals of all records."""
    stored = [record.packed for record in records if record.packed is not None]
    failed = [NotArchived(each.name, each.failure) for each in records if each.failure is not None]
    return Summary(
        archived=len(stored),
        size=sum(packed.size for packed in stored),
        stored=sum(packed.stored for packed in stored),
        failed=[*unreadable, *failed],
        passed_over=len(passed_over),
    )


def write(
    folder: str,
    out: Path,
    summary: Summary,
    records: Sequence[FileRecord],
    passed_over: Sequence[NotArchived],
) -> None:
    """Put the summary into the archive, complete or not at all.

    Bytes of file names that are no text are in it as JSON escapes of lone surrogates, which
    Python's `json.load` and `os.fsencode` turn back.
    """
    document = {
        "folder": folder,
        "archived": summary.archived,
        "bytes": summary.size,
        "stored_bytes": summary.stored,
        "ratio": round(summary.ratio, 4),
        "failed": [asdict(each) for each in summary.failed],
        "passed_over": [asdict(each) for each in passed_over],
        "files": [
            {
                "name": record.name,
                "bytes": record.packed.size,
                "stored_bytes": record.packed.stored,
                "sha256": record.packed.sha256,
            }
            for record in records
            if record.packed is not None
        ],
    }
    unfinished = out / f"{SUMMARY}.new"
    with unfinished.open("w", encoding="ascii") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(out / SUMMARY)
