"""What a caller says about workflows: a filter, or a refusal that names what is wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.api.filters import FilterOptions, ListOptions, conditions, listing_of
from perdure.errors import InvalidArgument
from perdure.logic.trees import arranged
from perdure.model.ids import WorkflowId
from perdure.model.listing import Cursor, ListingRequest, Window, WorkflowFilter
from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowRow
from perdure.store.rows import WORKFLOW_COLUMNS, workflow_row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS = st.sampled_from(["", "a", "é", "a%_", "x" * 600, "\x00", "\ud800", "ERROR", "1.w", "5"])
SCALARS = st.one_of(
    TEXTS,
    st.sampled_from([None, True, False, 0, 1, -1, 2**70, 0.5, float("nan"), float("inf"), b"b"]),
    st.sampled_from([datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), datetime.max]),  # noqa: DTZ001, DTZ901
    st.sampled_from([WorkflowState.ERROR, Cursor(1, WorkflowId("w")), object(), timedelta(1)]),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.sets(TEXTS, max_size=3),
    st.dictionaries(TEXTS, SCALARS, max_size=3),
)
OPTIONS = st.dictionaries(
    st.sampled_from([*ListOptions.__annotations__, "limits"]), VALUES, max_size=3
)
WORDS = [name for name in WorkflowFilter.__struct_fields__ if name in ListOptions.__annotations__]


@given(OPTIONS)
def test_anything_is_a_filter_or_a_named_refusal(options: dict[str, Any]) -> None:
    asked = attempted(options)
    if isinstance(asked, str):
        assert any(option in asked for option in options)
        return
    for name in WORDS:
        if options.get(name) is None:
            assert getattr(asked, name) == getattr(ListingRequest(), name)
    assert 1 <= asked.limit <= 10_000
    if asked.attributes is not None:
        assert isinstance(json.loads(asked.attributes), dict)
    _storable(asked)


def attempted(options: dict[str, Any]) -> ListingRequest | str:
    """The page that is wanted, or why it cannot be."""
    try:
        return listing_of(options)
    except InvalidArgument as error:
        return str(error)


def _storable(asked: ListingRequest) -> None:
    """Every text of it is one that a database can compare."""
    for name in ListingRequest.__struct_fields__:
        value = getattr(asked, name)
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str):
                assert "\x00" not in text
                text.encode()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"state": "ERROR"}, "unknown options: state"),
        ({"states": "error"}, "states='error'"),
        ({"states": ["ERROR", 3]}, "states=3"),
        ({"names": 3}, "names=3"),
        ({"names": [b"x"]}, "names=b'x'"),
        ({"ids": ["a\x00"]}, "ids="),
        ({"queued": 1}, "queued=1"),
        ({"has_parent": "yes"}, "has_parent='yes'"),
        ({"created_from": datetime(2026, 1, 1)}, "created_from=.*time zone"),  # noqa: DTZ001
        ({"completed_to": "2026-01-01"}, "completed_to="),
        ({"attributes": []}, "attributes="),
        ({"attributes": {"a": {"b": [float("nan")]}}}, r"attributes\.a\.b\[0\]=nan"),
        ({"attributes": {"a": 2**63}}, r"attributes\.a="),
        ({"attributes": {"a": object()}}, r"attributes\.a="),
        ({"attributes": {3: 1}}, "attributes=3"),
        ({"attributes": {"a": "\x00"}}, r"attributes\.a="),
        ({"attributes": {str(n): n for n in range(300)}}, "at most 200 values"),
        ({"id_prefixes": [str(n) for n in range(101)]}, "id_prefixes: 101; at most 100"),
        ({"limit": 0}, "limit=0"),
        ({"limit": True}, "limit=True"),
        ({"limit": 10_001}, "limit=10001"),
        ({"after": "w"}, "after='w'"),
        ({"after": "x.w"}, "after='x.w'"),
        ({"after": 5}, "after=5"),
        ({"after": f"{2**70}.w"}, "after="),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        listing_of(options)


def test_a_lone_text_is_one_of_several() -> None:
    asked = listing_of({"states": "ERROR", "names": "job", "ids": {"a"}})
    assert (asked.states, asked.names, asked.ids) == ((WorkflowState.ERROR,), ("job",), ("a",))
    assert listing_of({"names": []}).names == ()
    assert listing_of(dict.fromkeys(ListOptions.__annotations__)) == ListingRequest()


def test_every_condition_of_a_filter_can_be_said() -> None:
    said = set(FilterOptions.__annotations__)
    windows = {"created", "started", "completed"}
    for name in WorkflowFilter.__struct_fields__:
        assert name in said or (name in windows and f"{name}_from" in said), name


@given(
    st.integers(-(10**12), 10**12), st.integers(-2000, 2000), st.integers(-900, 900), st.booleans()
)
def test_a_window_holds_the_very_milliseconds(
    at_us: int, off_us: int, zone_min: int, upper: bool
) -> None:
    """An instant between two milliseconds bounds them exactly, in whatever zone it is said."""
    zone = timezone(timedelta(minutes=zone_min))
    bound = (EPOCH + timedelta(microseconds=at_us)).astimezone(zone)
    option = "created_to" if upper else "created_from"
    window: Window = conditions({option: bound})["created"]
    row_ms = (at_us + off_us) // 1000
    row = EPOCH + timedelta(milliseconds=row_ms)
    inside = row <= bound if upper else row >= bound
    limit = window.to_ms if upper else window.from_ms
    assert limit is not None
    assert inside == (row_ms <= limit if upper else row_ms >= limit)


@given(st.integers(-(2**62), 2**62), st.text(min_size=1))
def test_a_cursor_comes_back_from_its_text(created_at_ms: int, text: str) -> None:
    cursor = Cursor(created_at_ms, WorkflowId(text))
    assert Cursor.parse(str(cursor)) == cursor


@given(st.lists(st.integers(-1, 12), min_size=1, max_size=12))
def test_a_tree_holds_each_once_below_its_parent(parents: list[int]) -> None:
    """Whatever rows say of their parents, circles and unknown ones included."""
    root = row_of("root", None)
    found = [row_of(f"w{n}", "root" if p < 0 else f"w{p}") for n, p in enumerate(parents)]
    branches = arranged(root, found)
    assert branches[0].workflow is root
    ids = [branch.workflow.workflow_id for branch in branches]
    assert len(ids) == len(set(ids))
    reachable = {"root"}
    known = {row.workflow_id for row in found}
    for _ in found:
        reachable |= {
            row.workflow_id
            for row in found
            if row.parent_workflow_id in reachable or row.parent_workflow_id not in known
        }
    assert set(ids) == reachable
    path: list[str] = []
    for branch in branches:
        del path[branch.depth :]
        parent = branch.workflow.parent_workflow_id
        assert branch.depth == 0 or path[-1] == (parent if parent in known else "root")
        path.append(branch.workflow.workflow_id)


def row_of(name: str, parent: str | None) -> WorkflowRow:
    """A row with a parent, otherwise unremarkable."""
    columns = dict.fromkeys(WORKFLOW_COLUMNS)
    known = {"workflow_uuid": name, "status": "SUCCESS", "parent_workflow_id": parent}
    return workflow_row({**columns, **known})
