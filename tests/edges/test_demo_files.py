"""The demonstration's work on files: the listing, the archives, and everything odd about files."""

from __future__ import annotations

import gzip
import inspect
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.demo import listing, packing
from perdure.cli.demo.listing import NotArchived, Page, list_page
from perdure.cli.demo.packing import (
    ArchiveDamaged,
    Packed,
    SourceChanged,
    Stopped,
    archive_path,
    pack,
    verify,
)
from tests.edges import archives


class Never:
    is_cancelled = False


class Meanwhile:
    """Does something when the work asks whether to stop, which is at each chunk."""

    def __init__(self, action: Callable[[], object], answer: bool = False) -> None:
        self._action = action
        self._answer = answer

    @property
    def is_cancelled(self) -> bool:
        self._action()
        return self._answer


def pages(folder: Path, limit: int, leave_out: list[str] | None = None) -> Iterator[Page]:
    end = None
    while True:
        page = list_page(str(folder), leave_out or [], end, limit)
        yield page
        if page.end is None:
            return
        end = page.end


@pytest.mark.parametrize("limit", [1, 2, 7, 50, 51, 1000])
def test_pages_of_any_size_list_every_file_once(tmp_path: Path, limit: int) -> None:
    folder = archives.tree(tmp_path, 50)
    found = list(pages(folder, limit))
    assert sorted(name for page in found for name in page.files) == archives.names(folder)
    assert all(len(page.files) <= limit for page in found)


def test_what_comes_and_goes_between_pages_is_listed_at_most_once(tmp_path: Path) -> None:
    for name in ("b", "d", "m/a", "m/c", "x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    first = list_page(str(tmp_path), [], None, 3)
    assert first.files == ["b", "d", "m/a"]
    (tmp_path / "m/a").unlink()
    (tmp_path / "a").touch()
    (tmp_path / "m/b").touch()
    (tmp_path / "d").unlink()
    second = list_page(str(tmp_path), [], first.end, 10)
    assert (second.files, second.end) == (["m/b", "m/c", "x"], None)


def test_a_folder_at_which_a_page_ended_may_be_gone(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/a").touch()
    (tmp_path / "z").touch()
    first = list_page(str(tmp_path), [], None, 1)
    (tmp_path / "m/a").unlink()
    (tmp_path / "m").rmdir()
    assert list_page(str(tmp_path), [], first.end, 9).files == ["z"]
    (tmp_path / "z").unlink()
    tmp_path.rmdir()
    assert list_page(str(tmp_path), [], first.end, 9) == Page([], [], [], None)


def test_links_sockets_and_pipes_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        (page,) = pages(tmp_path, 10)
    assert page.files == ["file"]
    assert page.passed_over == [
        NotArchived("link", "a symbolic link"),
        NotArchived("loop", "a symbolic link"),
        NotArchived("pipe", "no regular file"),
        NotArchived("socket", "no regular file"),
    ]


def test_the_archive_and_the_database_inside_the_folder_are_left_out(tmp_path: Path) -> None:
    for name in ("out/files/x.gz", "out2/y", "my.db", "my.db-wal"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    left_out = [str(tmp_path / name) for name in ("out", "my.db", "my.db-wal")]
    assert [page.files for page in pages(tmp_path, 10, left_out)] == [["out2/y"]]


def test_a_folder_that_cannot_be_listed_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By force, since nothing is forbidden to the user some machines run tests as."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "open").touch()
    entries = listing._entries  # noqa: SLF001 - the system's refusal comes from here

    def refusing(path: str) -> Iterator[os.DirEntry[str]]:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return entries(path)

    monkeypatch.setattr(listing, "_entries", refusing)
    (page,) = pages(tmp_path, 10)
    assert (page.files, page.unreadable) == (["open"], [NotArchived("closed", "Permission denied")])
    assert list_page(str(tmp_path / "closed"), [], None).unreadable == [
        NotArchived(".", "Permission denied")
    ]


def test_folders_may_lie_deeper_than_calls(tmp_path: Path) -> None:
    """A path may have more parts than Python allows calls in each other."""
    deepest = Path(tmp_path, *["d"] * 200)
    deepest.mkdir(parents=True)
    (deepest / "file").touch()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(context=0)) + 100)
    try:
        (page,) = pages(tmp_path, 10)
    finally:
        sys.setrecursionlimit(limit)
    assert page.files == [str(deepest.relative_to(tmp_path) / "file")]


@pytest.mark.parametrize("size", [0, 1, packing.CHUNK, packing.CHUNK + 1, 3 * packing.CHUNK])
def test_what_is_packed_is_verified_and_equal(tmp_path: Path, size: int) -> None:
    content = os.urandom(size // 2) + bytes(size - size // 2)
    (tmp_path / "file").write_bytes(content)
    packed = pack(tmp_path, tmp_path / "out", "file", Never())
    archive = tmp_path / "out/files/file.gz"
    assert (packed.size, packed.stored) == (size, archive.stat().st_size)
    assert gzip.decompress(archive.read_bytes()) == content
    verify(tmp_path / "out", "file", packed, Never())
    assert list((tmp_path / "out/.unfinished").iterdir()) == []


@pytest.mark.parametrize("harm", ["cut", "flipped", "other", "emptied"])
def test_a_damaged_archive_is_found(tmp_path: Path, harm: str) -> None:
    (tmp_path / "file").write_bytes(b"content" * 100)
    packed = pack(tmp_path, tmp_path, "file", Never())
    archive = archive_path(tmp_path, "file")
    raw = archive.read_bytes()
    flipped = raw[:15] + bytes([raw[15] ^ 0xFF]) + raw[16:]
    harmed = {"cut": raw[:-9], "flipped": flipped, "other": gzip.compress(b"x"), "emptied": b""}
    archive.write_bytes(harmed[harm])
    with pytest.raises(ArchiveDamaged):
        verify(tmp_path, "file", packed, Never())


def test_a_file_that_changes_while_it_is_read_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(packing.CHUNK))

    def grow() -> None:
        with file.open("ab") as writer:
            writer.write(b"more")

    with pytest.raises(SourceChanged, match="changed while it was read"):
        pack(tmp_path, tmp_path / "out", "file", Meanwhile(grow))
    assert archives.names(tmp_path / "out") == []


def test_abandoned_work_ends_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(packing.CHUNK))
    with pytest.raises(Stopped):
        pack(tmp_path, tmp_path / "out", "file", Meanwhile(lambda: None, answer=True))
    assert archives.names(tmp_path / "out") == []


def test_what_became_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="symbolic links"):
        pack(tmp_path, tmp_path / "out", "link", Never())
    with pytest.raises(SourceChanged, match="no regular file"):
        pack(tmp_path, tmp_path / "out", "pipe", Never())


def test_a_name_too_long_for_its_suffix_gets_a_name_of_its_own(tmp_path: Path) -> None:
    twins = ["x" * 254 + "a", "x" * 254 + "b"]
    for name in twins:
        (tmp_path / name).write_text(name)
        verify(tmp_path / "out", name, pack(tmp_path, tmp_path / "out", name, Never()), Never())
    assert len(archives.names(tmp_path / "out")) == len(twins)


_PART = st.text(st.sampled_from("a.gz~"), min_size=1, max_size=6).filter(
    lambda part: part not in {".", ".."}
)


@given(st.lists(_PART, min_size=1, max_size=3), st.lists(_PART, min_size=1, max_size=3))
def test_no_two_files_share_an_archive_and_none_lies_where_another_is_a_folder(
    one: list[str], other: list[str]
) -> None:
    out = Path("/out")
    first, second = (archive_path(out, "/".join(parts)) for parts in (one, other))
    if one != other:
        assert first != second
    assert first not in second.parents
    assert second not in first.parents


def test_equal_files_give_equal_archives(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
        os.utime(tmp_path / name, (ord(name), ord(name)))
    one, other = (pack(tmp_path, tmp_path, name, Never()) for name in ("a", "b"))
    assert one == other == Packed(4, one.stored, one.sha256)
    assert archive_path(tmp_path, "a").read_bytes() == archive_path(tmp_path, "b").read_bytes()
