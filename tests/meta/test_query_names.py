"""Both stores have the same named queries, so that a reader can lay them side by side."""

from __future__ import annotations

from perdure.store.sql import read_blocks

# A query only one store has, and why the other has none.
POSTGRES_ALONE: dict[str, str] = {}
SQLITE_ALONE: dict[str, str] = {}


def names(store: str) -> set[str]:
    return {block.name for block in read_blocks(f"perdure.store.{store}") if block.kind == "name"}


def test_each_query_has_its_counterpart_or_a_reason() -> None:
    postgres, sqlite = names("postgres"), names("sqlite")
    assert postgres - sqlite == set(POSTGRES_ALONE)
    assert sqlite - postgres == set(SQLITE_ALONE)
    assert all(POSTGRES_ALONE.values())
    assert all(SQLITE_ALONE.values())
