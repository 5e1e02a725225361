"""`ListingStore.list_workflows`: each condition of a filter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.model.ids import WorkflowId
from perdure.model.listing import ListingRequest, Window
from perdure.model.status import WorkflowState
from tests.support.store import Process, Site

BOOT = "w/boot-1"
COLUMNS = {
    "names": "name",
    "class_names": "class_name",
    "config_names": "config_name",
    "versions": "application_version",
    "users": "authenticated_user",
    "queues": "queue_name",
    "schedules": "schedule_name",
    "dedup_ids": "deduplication_id",
    "parents": "parent_workflow_id",
    "forked_from": "forked_from",
    "executors": "executor_id",
}
INSTANTS = {
    "created": "created_at",
    "started": "started_at_epoch_ms",
    "completed": "completed_at",
}


async def listed(me: Process, **wanted: Any) -> list[WorkflowId]:
    """The ids of a listing, in its order."""
    found = await me.store.list_workflows(ListingRequest(**wanted))
    return [row.workflow_id for row in found]


async def test_one_of_several_values_is_enough(site: Site, me: Process) -> None:
    """“Of several values one is enough; of none nothing is”."""
    for name, value in (("a", "one"), ("b", "two"), ("c", "One"), ("d", None), ("e", "")):
        await site.foreign(name, created_at=1, **dict.fromkeys(COLUMNS.values(), value))
    for field in COLUMNS:
        assert await listed(me, **{field: ("one",)}) == ["a"], field
        assert await listed(me, **{field: ("two", "one", "one")}) == ["a", "b"], field
        assert await listed(me, **{field: ("three", "two")}) == ["b"], field
        assert await listed(me, **{field: ()}) == [], field
        assert await listed(me, **{field: None}) == ["a", "b", "c", "d", "e"], field


async def test_no_ids_states_or_prefixes_are_none_of_them(site: Site, me: Process) -> None:
    """“of none nothing is”, for the conditions that are said in another way."""
    await site.foreign("a")
    for field in ("ids", "states", "id_prefixes", "executors"):
        assert await listed(me, **{field: ()}) == [], field


async def test_several_prefixes(site: Site, me: Process) -> None:
    """“An id prefix is a text, not a pattern”: one of several is enough."""
    last = "\U0010ffff"
    for name in ("ab", "ac", "b%", "b_", "bx", f"z{last}", f"z{last}{last}", "\ue000"):
        await site.foreign(name, created_at=1)
    assert await listed(me, id_prefixes=("a", "b%")) == ["ab", "ac", "b%"]
    assert await listed(me, id_prefixes=("b_", "nothing", "bx")) == ["b_", "bx"]
    assert len(await listed(me, id_prefixes=(f"z{last}",))) == 2
    assert await listed(me, id_prefixes=("\ud7ff", last)) == []
    assert len(await listed(me, id_prefixes=("",))) == 8


async def test_an_executor_by_its_id_or_its_name(site: Site, me: Process) -> None:
    """“An executor is an executor id, or the name in ids of the form `<name>/<boot id>`”."""
    ids = {"a": BOOT, "b": "w/boot-2", "c": "w", "d": "w2/boot-1", "e": "w/other", "f": "W/boot-1"}
    for name, executor in ids.items():
        await site.foreign(name, executor_id=executor)
    assert await listed(me, executors=("w",)) == ["a", "b", "c"]
    assert await listed(me, executors=(BOOT,)) == ["a"]
    assert await listed(me, executors=("w2", "w/boot-2")) == ["b", "d"]
    assert await listed(me, executors=("w/",)) == []
    assert await listed(me, executors=("%",)) == []


async def test_applications(site: Site, me: Process) -> None:
    """“Without `applications` and `any_application` only this application's and unclaimed rows are
    meant, unless `ids` are given; named applications are theirs and unclaimed ones”. The beginning
    of an id names nobody."""
    for name, application in (("a", "app"), ("b", None), ("c", "other"), ("d", "third")):
        await site.foreign(name, application_name=application)
    assert await listed(me) == ["a", "b"]
    assert await listed(me, id_prefixes=("a", "c")) == ["a"]
    assert await listed(me, any_application=True) == ["a", "b", "c", "d"]
    assert await listed(me, applications=("other",)) == ["b", "c"]
    assert await listed(me, applications=("other", "third")) == ["b", "c", "d"]
    assert await listed(me, applications=()) == ["b"]
    assert await listed(me, ids=("a", "c")) == ["a", "c"]
    assert await listed(me, ids=("a", "c"), applications=("app",)) == ["a"]


async def test_queued(site: Site, me: Process) -> None:
    """“`queued` are those on a queue, in the active states unless `states` are given”."""
    for state in WorkflowState:
        await site.foreign(f"on {state.value}", status=state.value, queue_name="q")
        await site.foreign(f"off {state.value}", status=state.value, queue_name=None)
    await site.foreign("nameless", queue_name="")
    found = await listed(me, queued=True, limit=50)
    assert set(found) == {"on ENQUEUED", "on DELAYED", "on PENDING"}
    assert await listed(me, queued=True, states=(WorkflowState.ERROR,)) == ["on ERROR"]
    assert await listed(me, queued=True, states=()) == []


async def test_any_states_in_one_order(site: Site, me: Process) -> None:
    """“in order of (created_at, workflow id)”, whatever the states; “at most its limit”."""
    states = list(WorkflowState)
    state_of = {f"w{number:02}": states[number * 4 % len(states)] for number in range(35)}
    for number, (name, state) in enumerate(state_of.items()):
        await site.foreign(name, status=state.value, created_at=number // 3)
    for first in range(len(states)):
        asked = tuple(states[(first + step) % len(states)] for step in range(1 + first))
        expected = [name for name, state in state_of.items() if state in asked]
        assert await listed(me, states=asked, limit=7) == expected[:7], asked
        found = await listed(me, states=asked, limit=7, newest_first=True)
        assert found == expected[::-1][:7], asked


async def test_marks(site: Site, me: Process) -> None:
    """“Which workflows are meant: those that meet every condition”: '' is as good as none."""
    links, marks = ("parent_workflow_id", "forked_from"), ("was_forked_from", "is_debounced")
    await site.foreign("a", **dict.fromkeys(links, "x"), **dict.fromkeys(marks, True))
    await site.foreign("b")
    await site.foreign("c", **dict.fromkeys(links, ""))
    for field in ("has_parent", "is_fork", *marks):
        assert await listed(me, **{field: True}) == ["a"], field
        assert await listed(me, **{field: False}) == ["b", "c"], field


async def test_windows(site: Site, me: Process) -> None:
    """“A span of time, both ends included; None is open”; what has no instant is in none."""
    for number in range(5):
        times = {column: 10 + number for field, column in INSTANTS.items() if field != "created"}
        await site.foreign(f"w{number}", created_at=14 - number, **times)
    await site.foreign("never", created_at=60)
    for field in ("started", "completed"):
        for backwards in (False, True):
            wanted = {
                (12, None): ["w4", "w3", "w2"],
                (None, 12): ["w2", "w1", "w0"],
                (11, 13): ["w3", "w2", "w1"],
                (13, 11): [],
                (-(2**62), 2**62): ["w4", "w3", "w2", "w1", "w0"],
            }
            for window, expected in wanted.items():
                found = await listed(me, **{field: Window(*window)}, newest_first=backwards)
                assert found == (expected[::-1] if backwards else expected), (field, window)
    assert await listed(me, created=Window(11, 13)) == ["w3", "w2", "w1"]
    assert await listed(me, created=Window(14, None)) == ["w0", "never"]
    both = {"created": Window(None, 12), "completed": Window(13, None)}
    assert await listed(me, **both) == ["w4", "w3"]


ATTRIBUTES: dict[str, Any] = {
    "flat": {"plan": "gold", "seats": 3, "rate": 0.5, "trial": True, "note": None},
    "near": {"plan": "Gold", "seats": 4, "rate": 0.25, "trial": False, "note": "null"},
    "deep": {"owner": {"name": "Ada", "tags": ["a", "b", ["c"]], "at": {"x": 1, "y": [1, 2]}}},
    "list": {"tags": [1, "1", True, None, {"k": [1, 2]}, {"k": [3], "l": 4}], "plan": ["gold"]},
    "odd": {'a"b': 1, "a.b": 2, "$": 3, "é": "ü", "": "empty", "0": "zero", "a'b": 'q"'},
    "empty": {"o": {}, "l": [], "s": ""},
}


CONTAINED: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["deep", "empty", "flat", "list", "near", "odd"]),
    ({"plan": "gold"}, ["flat"]),
    ({"seats": 3}, ["flat"]),
    ({"seats": 3.0}, ["flat"]),
    ({"seats": "3"}, []),
    ({"rate": 0.5, "plan": "gold"}, ["flat"]),
    ({"rate": 0.5, "plan": "Gold"}, []),
    ({"trial": True}, ["flat"]),
    ({"trial": 1}, []),
    ({"note": None}, ["flat"]),
    ({"missing": None}, []),
    ({"owner": {}}, ["deep"]),
    ({"owner": {"name": "Ada"}}, ["deep"]),
    ({"owner": {"at": {"y": [2]}}}, ["deep"]),
    ({"owner": {"at": {"y": [3]}}}, []),
    ({"owner": {"tags": [["c"]]}}, ["deep"]),
    ({"owner": {"tags": ["c"]}}, []),
    ({"owner": {"tags": []}}, ["deep"]),
    ({"owner": []}, []),
    ({"tags": [True, 1, 1]}, ["list"]),
    ({"tags": [False]}, []),
    ({"tags": [{"k": [2]}]}, ["list"]),
    ({"tags": [{"k": [3], "l": 4}, None]}, ["list"]),
    ({"tags": [{"k": [1], "l": 4}]}, []),
    ({"tags": 1}, []),
    ({"plan": ["gold"]}, ["list"]),
    ({'a"b': 1, "a.b": 2, "$": 3, "é": "ü"}, ["odd"]),
    ({"": "empty", "0": "zero", "a'b": 'q"'}, ["odd"]),
    ({"o": {}, "l": [], "s": ""}, ["empty"]),
    ({"o": []}, []),
    ({"l": {}}, []),
]


async def test_what_attributes_contain(site: Site, me: Process) -> None:
    """“each of its keys, with an equal scalar, an object that contains the one there, or an array
    that holds each element of the one there, in any order”."""
    for name, attributes in ATTRIBUTES.items():
        await site.foreign(name, attributes=json.dumps(attributes))
    for name, text in (("none", None), ("null", "null"), ("array", '["plan"]'), ("word", '"x"')):
        await site.foreign(name, attributes=text)
    for asked, expected in CONTAINED:
        assert sorted(await listed(me, attributes=json.dumps(asked))) == expected, asked


async def test_what_is_no_json_contains_nothing(site: Site, me: Process) -> None:
    """“the workflow's contains”: a text in a file that is no JSON does not end the listing."""
    if site.kind == "postgres":
        pytest.skip("the column of a server holds nothing else")
    await site.foreign("bad", attributes='{"plan": "gold"')
    await site.foreign("good", attributes='{"plan": "gold"}')
    assert await listed(me, attributes='{"plan": "gold"}') == ["good"]
    assert await listed(me, attributes="{}") == ["good"]


async def test_payloads_beside_each_way_of_finding_them(site: Site, me: Process) -> None:
    """“with_inputs”, “with_outputs”: apart from each other, and in the order of the listing."""
    for number, state in enumerate(("ERROR", "CANCELLED", "ERROR", "SUCCESS")):
        name = f"w{number}"
        await site.foreign(name, status=state, created_at=number, completed_at=5, inputs="old")
        await site.insert("workflow_output", workflow_uuid=name, output=f"o{number}")
    failed = (WorkflowState.ERROR, WorkflowState.CANCELLED)
    for condition in ({"states": failed}, {"completed": Window(5, 5)}, {}):
        wanted = ListingRequest(newest_first=True, with_outputs=True, **condition)
        found = await me.store.list_workflows(wanted)
        expected = ["o3", "o2", "o1", "o0"] if "states" not in condition else ["o2", "o1", "o0"]
        assert [row.output for row in found] == expected
        assert {row.inputs for row in found} == {None}
        found = await me.store.list_workflows(ListingRequest(with_inputs=True, **condition))
        assert {(row.inputs, row.output) for row in found} == {("old", None)}
