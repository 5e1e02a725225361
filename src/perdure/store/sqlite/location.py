"""Where a SQLite database is, and whether one can be there."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from perdure.errors import ConfigurationError, DatabaseRejected

_FORMS = "sqlite:///relative/path.db, sqlite:////absolute/path.db or memory:"
_IN_MEMORY = frozenset({"memory:", "memory://", "sqlite:///:memory:"})


@dataclass(frozen=True, slots=True)
class Location:
    """A file, or with `path` None a database in the memory of one store object."""

    path: Path | None

    def __str__(self) -> str:
        return "the database in memory" if self.path is None else f"the database {self.path}"

    @property
    def companions(self) -> Path:
        """The folder beside the file that holds our locks."""
        assert self.path is not None
        return self.path.with_name(f"{self.path.name}.perdure")

    def uri(self, *, create: bool) -> str:
        """What the driver opens; without `create` a missing file is an error."""
        assert self.path is not None
        return f"file:{quote(str(self.path))}?mode={'rwc' if create else 'rw'}"


def locate(url: str) -> Location:
    """The database a URL names; raises `ConfigurationError` for one that names none.

    A relative path starts at the working directory of this moment. Symbolic links are followed,
    so that all names of a file share one folder of locks.
    """
    if url in _IN_MEMORY:
        return Location(None)
    prefix = "sqlite:///"
    if not url.startswith(prefix) or url == prefix:
        raise ConfigurationError(f"{url!r} does not name a SQLite database; write {_FORMS}")
    name = url.removeprefix(prefix)
    if "?" in name or name.startswith("file:"):
        raise ConfigurationError(
            f"{url!r}: options in the URL are not understood; write {_FORMS} and pass settings "
            "by their names"
        )
    if "\x00" in name:
        raise ConfigurationError(f"{url!r}: a path cannot hold a NUL character")
    return Location(Path(name).resolve())


def require_place(location: Location) -> None:
    """Raise unless a database is at the location or could be created there.

    `ConfigurationError` where the location itself is wrong; `DatabaseRejected` where the file or
    its folder does not let this process write.
    """
    path = location.path
    if path is None:
        return
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name a file in it as the database")
    if not path.parent.is_dir():
        raise ConfigurationError(
            f"the folder {path.parent} of the database {path.name} does not exist; create it"
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise DatabaseRejected(
            f"this process may not read and write {path}; change the file's permissions"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DatabaseRejected(
            f"this process may not create files in {path.parent}, where SQLite keeps its log "
            f"beside {path.name}; change the folder's permissions"
        )
