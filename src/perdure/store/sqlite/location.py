"""Where a SQLite database is, and whether one can be there."""

import os
from pathlib import Path
from urllib.parse import quote

from perdure.errors import ConfigurationError, DatabaseRejected

SMALLEST_FILE = 512
"""Bytes of the smallest database: SQLite would take a shorter file for an empty one."""

_FORMS = "sqlite:///relative/path.db, sqlite:////absolute/path.db or memory:"
_IN_MEMORY = frozenset({"memory:", "memory://", "sqlite:///:memory:"})
_PREFIX = "sqlite:///"


def locate(url: str) -> Path | None:
    """The file a URL names, None for a database in memory; `ConfigurationError` for anything else.

    A relative path starts at the working directory of this moment. Symbolic links are followed,
    so that all names of a file share one folder of locks.
    """
    if url in _IN_MEMORY:
        return None
    name = url.removeprefix(_PREFIX)
    if not url.startswith(_PREFIX) or not name:
        raise ConfigurationError(f"{url!r} does not name a SQLite database; write {_FORMS}")
    if "?" in name or name.startswith(("file:", ":memory:")):
        raise ConfigurationError(
            f"{url!r}: options in the URL are not understood; write {_FORMS} and pass settings "
            "by their names"
        )
    if "\x00" in name:
        raise ConfigurationError(f"{url!r}: a path cannot hold a NUL character")
    return Path(name).resolve()


def companions(path: Path) -> Path:
    """The folder beside a database that holds our locks."""
    return path.with_name(f"{path.name}.perdure")


def uri(path: Path, *, create: bool) -> str:
    """What the driver opens; without `create` a missing file is an error."""
    return f"file:{quote(str(path))}?mode={'rwc' if create else 'rw'}"


def require_place(path: Path) -> None:
    """Raise unless a database is in that file or could be created there.

    `ConfigurationError` where the path itself is wrong; `DatabaseRejected` where the file or its
    folder does not let this process write.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name a file in it as the database")
    if not path.parent.is_dir():
        raise ConfigurationError(
            f"the folder {path.parent} of the database {path.name} does not exist; create it"
        )
    # Never opened here: closing a second descriptor would end the driver's locks on the file.
    if path.exists() and 0 < path.stat().st_size < SMALLEST_FILE:
        raise DatabaseRejected(f"{path} is not a SQLite database; it is left as it is")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise DatabaseRejected(
            f"this process may not read and write {path}; change the file's permissions"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DatabaseRejected(
            f"this process may not create files in {path.parent}, where SQLite keeps its log "
            f"beside {path.name}; change the folder's permissions"
        )
