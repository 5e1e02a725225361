"""Where a demonstration reads and writes, and under which ids its runs stand."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from perdure.cli.demo import packing, summary
from perdure.config import MEMORY_URL
from perdure.errors import ConfigurationError

DATABASE = "perdure.db"
MARKER = ".perdure-demo.json"
_COMPANIONS = ("-wal", "-shm", "-journal", ".perdure")
"""What lies beside a SQLite file, by what follows its name."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folder, the archive and the database of a demonstration; both paths resolved."""

    folder: str
    out: str
    database: str

    @property
    def queue(self) -> str:
        """The name of the queue of this archive."""
        return queue_name(self.folder, self.out)

    @property
    def id_prefix(self) -> str:
        """How the ids of this folder's runs in this archive begin."""
        return f"{self.queue}-run"

    def run_id(self, number: int) -> str:
        """The id of a run, counted from 1. Its children's ids end in `-` and a number."""
        return f"{self.id_prefix}{number}"

    def run_number(self, workflow_id: str) -> int:
        """The inverse of `run_id`."""
        return int(workflow_id.removeprefix(self.id_prefix))

    @property
    def leave_out(self) -> list[str]:
        """Paths not to be looked at even if they lie in the folder: the archive, the database.

        Reading the database's file would be worse than useless: closing a file gives up the locks
        this process holds on it.
        """
        paths = [self.out]
        if self.database.startswith("sqlite:///"):
            file = os.path.realpath(self.database.removeprefix("sqlite:///"))
            paths += [file, *(file + companion for companion in _COMPANIONS)]
        return paths


def queue_name(folder: str, out: str) -> str:
    """Names the queue of a folder's archive.

    Each has its own: on a database that several machines share, nobody is given files that are not
    on his disk.
    """
    paths = os.fsencode(folder) + b"\x00" + os.fsencode(out)
    return f"demo-{hashlib.sha256(paths).hexdigest()[:16]}"


def places(folder: Path, out: Path, database: str | None) -> Places:
    """The places of a demonstration; raises where one cannot be what it is asked to be."""
    source, target = os.path.realpath(folder), os.path.realpath(out)
    if source == target:
        raise ConfigurationError(
            f"--out is the folder to archive, {source}; name another folder for the archive"
        )
    if Path(source).is_relative_to(Path(target, packing.FILES)):
        raise ConfigurationError(f"{source} is a part of the archive {target}; name another --out")
    return Places(source, target, database or _own_database(target))


def _own_database(out: str) -> str:
    """A SQLite file in the archive."""
    if "?" in out or out != os.fsencode(out).decode("utf-8", "replace"):
        raise ConfigurationError(
            f"no SQLite database can be in {out!r} because of its name; name another --out, or a "
            "database elsewhere with --database"
        )
    return f"sqlite:///{Path(out, DATABASE)}"


def check_shareable(where: Places, processes: int) -> None:
    """Refuse to share what only one process can see."""
    if processes > 1 and where.database == MEMORY_URL:
        raise ConfigurationError(
            f"--workers {processes} needs a database that several processes can open, which "
            f"{MEMORY_URL} is not; name a SQLite file or a Postgres database with --database"
        )


def prepare(where: Places) -> None:
    """Make the archive's folder and mark whose it is.

    Refuses a folder that holds the archive of another folder, or something of ours by name that is
    not ours: archiving into it would overwrite that.
    """
    out = Path(where.out)
    out.mkdir(parents=True, exist_ok=True)
    marker = out / MARKER
    holder = _marked(marker)
    if holder == where.folder:
        return
    if holder is not None:
        raise ConfigurationError(
            f"{where.out} holds the archive of {holder}; name another --out for {where.folder}"
        )
    for name in (packing.FILES, summary.SUMMARY, packing.UNFINISHED):
        path = out / name
        if os.path.lexists(path):
            raise ConfigurationError(
                f"{path} is there already and is not part of an archive; name another --out"
            )
    unfinished = out / f"{MARKER}.new"
    unfinished.write_text(json.dumps({"folder": where.folder}), encoding="ascii")
    unfinished.replace(marker)


def _marked(marker: Path) -> str | None:
    """Whose archive a folder is, by its marker; None without one."""
    try:
        document = json.loads(marker.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigurationError(f"{marker} is damaged: {error}; name another --out") from error
    holder = document.get("folder") if isinstance(document, dict) else None
    return holder if isinstance(holder, str) else ""
