"""What is decided about a system schema as it was found."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import SchemaError, SchemaMissing, SchemaTooOld
from perdure.logic.schema import (
    BOOKKEEPING,
    NEEDED_TABLES,
    OWN_VERSION,
    SHARED_TABLES,
    FoundSchema,
    SchemaSteps,
    refuse_unless_runnable,
    schema_steps,
)

OWN = tuple(range(1, OWN_VERSION + 1))


def found(*versions: int, **fields: Any) -> FoundSchema:
    values = {"where": "here", "tables": SHARED_TABLES, "own_version": OWN_VERSION, **fields}
    return FoundSchema(versions=versions, **values)


def test_nothing_there_is_created() -> None:
    empty = found(tables=frozenset(), own_version=None)
    assert schema_steps(empty) == SchemaSteps(create=True, converge=(), own=OWN)


def test_a_table_of_versions_alone_is_nothing() -> None:
    assert schema_steps(found(tables=frozenset({BOOKKEEPING}))).create


@pytest.mark.parametrize(
    ("version", "converge"), [(123, (124, 125)), (124, (125,)), (125, ()), (126, ()), (999, ())]
)
def test_each_version_is_converged_from_where_it_is(
    version: int, converge: tuple[int, ...]
) -> None:
    steps = schema_steps(found(version))
    assert steps == SchemaSteps(create=False, converge=converge, own=())
    assert bool(steps) == bool(converge)


def test_only_our_own_tables_may_be_missing() -> None:
    assert schema_steps(found(125, own_version=None)).own == OWN
    assert not schema_steps(found(125, own_version=OWN_VERSION + 5))


@pytest.mark.parametrize("version", [0, 1, 47, 122])
def test_an_older_version_is_refused(version: int) -> None:
    for decide in (schema_steps, refuse_unless_runnable):
        with pytest.raises(SchemaTooOld, match=rf"version {version}.*dbos 3\.4\.0"):
            decide(found(version))


def test_what_may_run() -> None:
    for version in (123, 124, 125, 126):
        refuse_unless_runnable(found(version))
    with pytest.raises(SchemaMissing):
        refuse_unless_runnable(found(tables=frozenset()))
    with pytest.raises(SchemaMissing, match="own tables"):
        refuse_unless_runnable(found(125, own_version=None))


def test_a_table_nobody_uses_may_be_missing() -> None:
    """It is not refused."""
    refuse_unless_runnable(found(130, tables=NEEDED_TABLES | {BOOKKEEPING}))


@pytest.mark.parametrize(
    "strange",
    [
        found(),
        found(tables=frozenset({"queues"})),
        found(124, 125),
        found(125, sharded=True),
        found(125, tables=SHARED_TABLES - {"streams"}),
    ],
)
def test_what_is_strange_is_refused_by_name(strange: FoundSchema) -> None:
    for decide in (schema_steps, refuse_unless_runnable):
        with pytest.raises(SchemaError, match=r"^here ") as refused:
            decide(strange)
        assert type(refused.value) is SchemaError
