"""Names become SQL in one place, and schema statements are found by name."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.errors import ConfigurationError
from perdure.logic.schema import OLDEST_CONVERGED, OWN_VERSION, SHARED_TABLES
from perdure.model.wire import SCHEMA_VERSION
from perdure.store.ddl import Statement, dollar_quote, render, statements
from perdure.store.identifiers import MAX_IDENTIFIER_BYTES, own_schema, quote_identifier
from tests.support.schemas import golden

STORES = ["postgres", "sqlite"]
NAMES = st.text(
    st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=63
).filter(lambda name: len(name.encode()) <= MAX_IDENTIFIER_BYTES)


@given(NAMES)
def test_a_quoted_identifier_ends_where_it_ends(name: str) -> None:
    quoted = quote_identifier(name)
    assert quoted[0] == quoted[-1] == '"'
    inside = quoted[1:-1]
    assert '"' not in inside.replace('""', "")
    assert inside.replace('""', '"') == name


@pytest.mark.parametrize("name", ["", "a\x00b", "n" * 64, "é" * 32, "\ud800"])
def test_what_cannot_be_an_identifier_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="schema name"):
        quote_identifier(name)


@given(NAMES, NAMES)
def test_each_shared_schema_has_a_schema_of_ours(one: str, other: str) -> None:
    quote_identifier(own_schema(one))
    assume(one != other)
    assert own_schema(one) != own_schema(other)


def test_ours_beside_the_default_is_called_perdure() -> None:
    assert own_schema("dbos") == "perdure"
    assert own_schema("team") == "team_perdure"


@given(NAMES)
def test_no_name_ends_a_dollar_quote(name: str) -> None:
    hostile = f"$body$ {name} $body_$"
    assert dollar_quote(hostile) not in hostile


def test_a_value_that_looks_like_a_placeholder_is_not_replaced() -> None:
    statement = Statement("s", "{schema} {own} '{}' {unknown}")
    rendered = render(statement, {"schema": '"{own}"', "own": '"x"'})
    assert rendered == Statement("s", '"{own}" "x" \'{}\' {unknown}')


@pytest.mark.parametrize("store", STORES)
def test_every_version_has_its_file(store: str) -> None:
    package = f"perdure.store.{store}"
    for version in range(OLDEST_CONVERGED, SCHEMA_VERSION + 1):
        assert statements(package, f"shared_{version}")
    for version in range(1, OWN_VERSION + 1):
        assert statements(package, f"own_{version:03}")


def test_both_stores_make_the_same_things() -> None:
    """But for functions, and what has no meaning in a file."""

    def made(store: str) -> set[str]:
        names: set[str] = set()
        for version in range(OLDEST_CONVERGED, SCHEMA_VERSION + 1):
            names |= set(statements(f"perdure.store.{store}", f"shared_{version}"))
        return names | set(statements(f"perdure.store.{store}", "own_001"))

    assert made("sqlite") <= made("postgres")
    assert made("postgres") - made("sqlite") == {
        "create_event_dispatch_kv",
        "function_enqueue_workflow",
        "function_notifications",
        "function_send_message",
        "index_workflow_status_attributes",
        "trigger_notifications",
    }


def test_the_names_we_look_for_are_the_shared_tables() -> None:
    assert set(golden("postgres")["tables"]) == SHARED_TABLES
    assert set(golden("sqlite")["tables"]) == SHARED_TABLES - {"event_dispatch_kv"}
