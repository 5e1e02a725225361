"""Folders to archive, and what an archive holds."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

_BIG = "zz-big.bin"
_ENDLESS_BYTES = 1 << 40


def tree(folder: Path, files: int) -> Path:
    """A folder of many small files in nested folders."""
    chance = random.Random(files)
    for number in range(files):
        path = folder / f"part-{number % 7}" / f"{number % 3}" / f"file-{number:04}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(chance.randrange(200)) * chance.randrange(30))
    return folder


def add_endless(folder: Path) -> None:
    """A file that comes last and that nobody gets to the end of: a hole, which takes no place.

    However fast a machine is, and however late a test does what it does meanwhile, the work on the
    folder is not at its end before.
    """
    with (folder / _BIG).open("wb") as file:
        file.truncate(_ENDLESS_BYTES)


def end_endless(folder: Path) -> None:
    """An ordinary file in its place; whoever reads the endless one goes on with that."""
    file = folder / _BIG
    file.unlink()
    file.write_bytes(random.Random(0).randbytes(1_000_000))


def contents(folder: Path) -> dict[str, str]:
    """The hash of every regular file, by its name relative to the folder."""
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names(folder)
    }


def names(folder: Path) -> list[str]:
    """All regular files below a folder; links are not followed."""
    return sorted(
        os.path.relpath(os.path.join(path, file), folder)  # noqa: PTH118 - any bytes in names
        for path, _, files in os.walk(folder)
        for file in files
        if Path(path, file).is_file() and not Path(path, file).is_symlink()
    )


def archived(out: Path) -> dict[str, str]:
    """The hash of what every archive holds, by the file's name; for names that need no escape."""
    return {
        name.removesuffix(".gz"): hashlib.sha256(
            gzip.decompress((out / "files" / name).read_bytes())
        ).hexdigest()
        for name in names(out / "files")
    }


def summary(out: Path) -> dict[str, Any]:
    """The summary's file."""
    document: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="ascii"))
    return document


def recorded(out: Path) -> dict[str, str]:
    """The hashes in the summary, by name."""
    return {each["name"]: each["sha256"] for each in summary(out)["files"]}


def identity(path: Path) -> tuple[int, int]:
    """Changes whenever a file is written again under its name."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns
