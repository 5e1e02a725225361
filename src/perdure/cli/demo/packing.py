"""The work on one file: compress it to its place in the archive, and read that back.

Files are streamed, so that none is ever whole in memory. An archive appears in its place complete
or not at all: it is written under another name, brought to the disk, and then renamed.
"""

import gzip
import hashlib
import os
import stat
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

CHUNK = 1024 * 1024
LEVEL = 6
SUFFIX = ".gz"
LONGEST_NAME = 255
"""Bytes in a file's name that usual file systems allow."""

FILES = "files"
UNFINISHED = ".unfinished"

_GZIP = zlib.MAX_WBITS | 16
"""Makes zlib write the gzip format, without name and time: equal files give equal archives."""

_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    # What was a file when it was listed may have become a link, or a pipe that blocks.
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


_CHANGED = "it changed while it was read"


class SourceChanged(Exception):
    """The file is not, or no longer, what was to be archived."""


class ArchiveDamaged(Exception):
    """The archive does not hold what was read from the file."""


class Stopped(Exception):
    """Nobody waits for this work any more."""


class StopSign(Protocol):
    """Says whether work should be given up."""

    @property
    def is_cancelled(self) -> bool:
        """Whether it should."""
        ...


@dataclass(frozen=True, slots=True)
class Packed:
    """What was read and what was written for it, in bytes; `sha256` is of what was read."""

    size: int
    stored: int
    sha256: str


def pack(folder: Path, out: Path, name: str, stop: StopSign) -> Packed:
    """Compress a file of the folder to its place in the archive.

    Raises `OSError` and `SourceChanged`; then nothing has appeared in the archive.
    """
    with _unfinished(out) as path:
        with _opened(folder / name) as source, path.open("xb") as archive:
            before = os.fstat(source.fileno())
            size, sha256 = _compress(source, archive, before.st_size, stop)
            after = os.fstat(source.fileno())
            if size != after.st_size or _stamp(before) != _stamp(after):
                raise SourceChanged(_CHANGED)
            stored = archive.tell()
            archive.flush()
            os.fsync(archive.fileno())
        _put(path, archive_path(out, name))
    return Packed(size, stored, sha256)


def verify(out: Path, name: str, packed: Packed, stop: StopSign) -> None:
    """Decompress a file's archive and compare; raises `ArchiveDamaged` and `OSError`."""
    digest = hashlib.sha256()
    size = 0
    try:
        with gzip.open(archive_path(out, name)) as archive:
            while chunk := archive.read(CHUNK):
                _check(stop)
                digest.update(chunk)
                size += len(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ArchiveDamaged(f"its archive is damaged: {error}") from error
    if (size, digest.hexdigest()) != (packed.size, packed.sha256):
        raise ArchiveDamaged("its archive holds something else than was read")


def archive_path(out: Path, name: str) -> Path:
    """Where the archive of a file lies.

    The tree of the folder is kept. No two files share an archive, nor a file's archive a folder's
    name: archives alone end in `.gz`, and a folder's name that does is given a `~`.
    """
    *folders, file = name.split("/")
    parents = [f"{each}~" if each.rstrip("~").endswith(SUFFIX) else each for each in folders]
    raw = os.fsencode(file)
    if len(raw) > LONGEST_NAME - len(SUFFIX):
        mark = "~" + hashlib.sha256(raw).hexdigest()[:16]
        kept = raw[: LONGEST_NAME - len(SUFFIX) - len(mark)]
        file = os.fsdecode(kept) + mark
    return Path(out, FILES, *parents, file + SUFFIX)


def _compress(
    source: IO[bytes], archive: IO[bytes], expected: int, stop: StopSign
) -> tuple[int, str]:
    digest = hashlib.sha256()
    squeezed = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    size = 0
    while chunk := source.read(CHUNK):
        _check(stop)
        size += len(chunk)
        if size > expected:
            # Reading on could go on for ever: it may grow as fast as it is read.
            raise SourceChanged(_CHANGED)
        digest.update(chunk)
        archive.write(squeezed.compress(chunk))
    archive.write(squeezed.flush())
    return size, digest.hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    descriptor = os.open(path, _OPEN_FLAGS)
    with os.fdopen(descriptor, "rb", buffering=0) as source:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SourceChanged("it is no regular file any more")
        yield source


@contextmanager
def _unfinished(out: Path) -> Iterator[Path]:
    """A path for a new file, which is gone afterwards unless it was renamed.

    Two processes may work on one file for a moment, when one was taken for dead: no two paths are
    the same.
    """
    path = out / UNFINISHED / uuid.uuid4().hex
    _make(path.parent)
    try:
        yield path
    finally:
        with suppress(FileNotFoundError):
            path.unlink()


def _put(path: Path, target: Path) -> None:
    _make(target.parent)
    path.replace(target)


def _make(folder: Path) -> None:
    """Asked first: for most files the folder is there."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _check(stop: StopSign) -> None:
    if stop.is_cancelled:
        raise Stopped("the work was given up")
