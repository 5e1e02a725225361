"""Which URLs name a SQLite database, and what is said where there can be none."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import ConfigurationError, DatabaseRejected, SchemaMissing
from perdure.store.sqlite import SqliteStore, location
from perdure.store.sqlite.location import companions, locate, require_place
from tests.support.database import MovableClock


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def store(url: str) -> SqliteStore:
    return SqliteStore(url, application_name="app", clock=MovableClock())


@pytest.mark.parametrize("url", ["memory:", "memory://", "sqlite:///:memory:"])
def test_a_database_in_memory(url: str) -> None:
    assert locate(url) is None


def test_three_slashes_are_relative_and_four_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = tmp_path.resolve()
    assert locate("sqlite:///media.db") == here / "media.db"
    assert locate("sqlite:///data/../media.db") == here / "media.db"
    assert locate("sqlite:////srv/media.db") == Path("/srv/media.db")


def test_all_names_of_a_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    found = locate(f"sqlite:///{tmp_path}/link.db")
    assert found == (tmp_path / "real.db").resolve()
    assert companions(tmp_path / "real.db") == tmp_path / "real.db.perdure"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://media.db",
        "sqlite:///media.db?mode=ro",
        "sqlite:///:memory:?cache=shared",
        "sqlite:///file::memory:?cache=shared",
        "sqlite:///a\x00b",
        "postgresql://localhost/x",
        "media.db",
        "",
    ],
)
def test_any_other_url_is_refused_with_the_right_form(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        locate(url)
    assert repr(url) in str(caught.value)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    missing = store(f"sqlite:///{tmp_path}/no/where/app.db")
    with pytest.raises(ConfigurationError, match="/no/where of the database"):
        await missing.open()
    with pytest.raises(ConfigurationError, match="does not exist"):
        await missing.migrate()
    assert names(tmp_path) == []


async def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a folder"):
        await store(f"sqlite:///{tmp_path}").open()


@pytest.mark.parametrize("text", [b"no database at all, but long enough to be one" * 100, b"x"])
async def test_a_file_of_another_kind_is_rejected_and_kept(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(text)
    for attempt in ("open", "migrate", "plan_migration", "check_schema"):
        with pytest.raises(DatabaseRejected, match="is not a SQLite database"):
            await getattr(store(f"sqlite:///{file}"), attempt)()
    assert file.read_bytes() == text


async def test_a_damaged_file_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    await store(f"sqlite:///{file}").migrate()
    damaged = bytearray(file.read_bytes())
    damaged[100:4000] = b"\xff" * 3900
    file.write_bytes(damaged)
    with pytest.raises(DatabaseRejected, match="is damaged"):
        await store(f"sqlite:///{file}").open()


@pytest.mark.parametrize(
    ("refused", "message"),
    [("app.db", "may not read and write"), ("", "may not create files in")],
)
async def test_what_may_not_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, message: str
) -> None:
    (tmp_path / "app.db").touch()
    allowed = os.access

    def access(path: Any, mode: int) -> bool:
        return Path(path) != tmp_path / refused and allowed(path, mode)

    # Not by permissions: the superuser passes by them.
    monkeypatch.setattr(location.os, "access", access)
    with pytest.raises(DatabaseRejected, match=message):
        require_place(tmp_path / "app.db")
    monkeypatch.undo()
    require_place(tmp_path / "app.db")


@pytest.mark.parametrize("name", ["a b.db", "50%.db", "a#b.db", "ü☃.db", "'q\".db", "a&b=c.db"])
async def test_odd_names_are_just_names(tmp_path: Path, name: str) -> None:
    odd = store(f"sqlite:///{tmp_path}/{name}")
    await odd.migrate()
    await odd.open()
    await odd.close()
    assert names(tmp_path) == [name, f"{name}.perdure"]


async def test_looking_at_a_missing_file_makes_none(tmp_path: Path) -> None:
    missing = store(f"sqlite:///{tmp_path}/typo.db")
    with pytest.raises(SchemaMissing):
        await missing.check_schema()
    assert (await missing.plan_migration()).statements
    assert names(tmp_path) == []


async def test_looking_at_a_file_leaves_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE theirs (a)")
    before = file.read_bytes()
    await store(f"sqlite:///{file}").plan_migration()
    assert file.read_bytes() == before
    other.close()


async def test_an_opened_file_has_a_write_ahead_log(tmp_path: Path) -> None:
    opened = store(f"sqlite:///{tmp_path}/app.db")
    await opened.migrate()
    await opened.open()
    other = sqlite3.connect(tmp_path / "app.db")
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
    await opened.close()
    assert names(tmp_path) == ["app.db", "app.db.perdure"]
