"""Named queries: how they are written down, and what is filled in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.store.rows import COLUMN_LISTS, STEP_COLUMNS
from perdure.store.sql import Queries, columns, parse, read_blocks

FILE = """-- What this file is about.

-- fragment: at
-- A table's alias.
AS {arg}

-- name: one
-- Says one thing,
-- on two lines.
SELECT {step_columns:s} FROM {schema}.operation_outputs {at:s};

-- name: two
-- Nothing to fill in.
SELECT '{}'::text[];
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an importable package whose `sql` folder is the test's to fill."""
    folder = tmp_path / "queries_of_a_test" / "sql"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "one.sql").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "queries_of_a_test"
    sys.modules.pop("queries_of_a_test", None)


def other(package: str, text: str) -> None:
    module = __import__(package)
    (Path(module.__path__[0]) / "sql" / "other.sql").write_text(text)


def test_a_block_has_a_name_a_description_and_a_text() -> None:
    at, one, two = parse(FILE)
    assert (at.kind, at.name) == ("fragment", "at")
    assert (one.kind, one.description) == ("name", "Says one thing, on two lines.")
    assert two.text == "SELECT '{}'::text[]"


def test_places_are_filled_from_names_lists_and_fragments(package: str) -> None:
    queries = Queries(package, {"schema": '"x"'})
    assert set(queries) == {"one", "two"}
    listed = columns(STEP_COLUMNS, "s")
    assert queries["one"] == f'SELECT {listed} FROM "x".operation_outputs AS s'
    assert queries["two"] == "SELECT '{}'::text[]"


def test_a_name_that_looks_like_a_place_stays_what_it_is(package: str) -> None:
    assert '"{at}"' in Queries(package, {"schema": '"{at}"'})["one"]


def test_a_query_must_say_what_it_does(package: str) -> None:
    other(package, "-- name: silent\nSELECT 1\n")
    with pytest.raises(ValueError, match="silent"):
        read_blocks(package)


def test_a_name_stands_once_in_all_files(package: str) -> None:
    other(package, "-- name: two\n-- Again.\nSELECT 2\n")
    with pytest.raises(ValueError, match="two"):
        read_blocks(package)


def test_an_unknown_place_is_found_when_queries_are_loaded(package: str) -> None:
    other(package, "-- name: three\n-- Fills in what nobody knows.\nSELECT {nobody}\n")
    with pytest.raises(KeyError, match="nobody"):
        Queries(package, {"schema": "x"})


@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_every_query_of_a_store_loads(store: str) -> None:
    names = {
        "schema": '"s"',
        "own": '"o"',
        "boot_prefix": "boot-",
        "internal_queues": "'i'",
        "pending_grace_ms": "1",
    }
    queries = Queries(f"perdure.store.{store}", names)
    assert len(queries) > 20
    assert all("{" not in text.replace("'{}'", "") for text in queries.values())


def test_a_column_stands_once_in_its_list() -> None:
    for listed in COLUMN_LISTS.values():
        assert len(set(listed)) == len(listed)
