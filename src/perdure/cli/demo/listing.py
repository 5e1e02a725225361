"""What there is to archive in a folder, page by page, in an order that does not depend on time."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

PAGE = 2000
"""Files in one recorded page of the listing."""


@dataclass(frozen=True, slots=True)
class NotArchived:
    """Something that is no file to archive, or that could not be archived, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing.

    Names are relative to the folder, with `/` between their parts; bytes that are no text are in
    them as `os.fsdecode` gives them. `passed_over` is what is no regular file, `unreadable` the
    folders that could not be listed. `end` is where the next page begins, None after the last.
    """

    files: list[str]
    passed_over: list[NotArchived]
    unreadable: list[NotArchived]
    end: str | None


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    trouble: str | None = None
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class _Level:
    """A folder being gone through: its remaining entries, and where a page before ended in it."""

    prefix: str
    entries: Iterator["os.DirEntry[str]"]
    after: tuple[str, ...]


def list_page(folder: str, leave_out: list[str], after: str | None, limit: int = PAGE) -> Page:
    """The next `limit` entries after the name at which the page before ended.

    A page reads the folders on the way to that name again. Whatever appears or vanishes between
    two pages, no file is listed twice.
    """
    page = Page([], [], [], None)
    name = None
    for count, found in enumerate(_walk(folder, leave_out, after)):
        if count == limit:
            return Page(page.files, page.passed_over, page.unreadable, name)
        name = found.name
        if found.trouble is None:
            page.files.append(name)
        else:
            into = page.unreadable if found.is_folder else page.passed_over
            into.append(NotArchived(name, found.trouble))
    return page


def _walk(folder: str, leave_out: list[str], after: str | None) -> Iterator[_Found]:
    """Everything below the folder after that name, folders' contents in their place.

    Keeps its own stack: folders may lie deeper in each other than calls may.
    """
    cursor = tuple(after.split("/")) if after else ()
    stack: list[_Level] = []
    try:
        stack.append(_Level("", _entries(folder), cursor))
    except OSError as error:
        if after is None:
            yield _Found(".", _reason(error), is_folder=True)
    while stack:
        level = stack[-1]
        entry = next(level.entries, None)
        if entry is None:
            stack.pop()
            continue
        here = bool(level.after) and entry.name == level.after[0]
        if level.after and (entry.name < level.after[0] or (here and len(level.after) == 1)):
            continue
        name = level.prefix + entry.name
        if entry.path in leave_out:
            continue
        trouble = _kind(entry)
        if trouble is not None or entry.is_file(follow_symlinks=False):
            yield _Found(name, trouble)
            continue
        try:
            below = level.after[1:] if here else ()
            stack.append(_Level(f"{name}/", _entries(entry.path), below))
        except OSError as error:
            yield _Found(name, _reason(error), is_folder=True)


def _entries(path: str) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(path) as found:
        return iter(sorted(found, key=lambda entry: entry.name))


def _kind(entry: "os.DirEntry[str]") -> str | None:
    """Why an entry is passed over; None for a regular file and for a folder."""
    try:
        if entry.is_symlink():
            return "a symbolic link"
        if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
            return None
    except OSError as error:
        return _reason(error)
    return "no regular file"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
