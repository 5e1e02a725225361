"""For whom workflows run, and which roles they require."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import (
    Client,
    ConfigurationError,
    InvalidArgument,
    NotAuthorized,
    Queue,
    WorkflowState,
    current,
    run_step,
    workflow,
)
from tests.support.engines import Lab

COLUMNS = ("authenticated_user", "authenticated_roles", "assumed_role")
BOB: Any = {"authenticated_user": "bob", "authenticated_roles": ["staff", "boss"]}
EVE: Any = {"authenticated_user": "eve", "authenticated_roles": ["staff"]}

begun: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()


def who() -> list[Any]:
    here = current()
    return [here.authenticated_user, list(here.authenticated_roles), here.assumed_role]


@workflow(name="tells")
async def tells() -> list[Any]:
    return [who(), await run_step("tell", who)]


@workflow(name="guarded", required_roles=["admin", "boss"])
async def guarded() -> list[Any]:
    begun.append(current().workflow_id or "")
    return who()


@workflow(name="family")
async def family() -> list[Any]:
    """A child of each kind: as it is, through a queue, guarded, and for somebody else."""
    own = await tells.options(id="own")()
    queued = await tells.options(id="queued", queue="q")()
    boss = await guarded.options(id="boss")()
    other = await tells.options(id="other", authenticated_user="ann")()
    return [own[0], queued[0], boss, other[0]]


async def stored(lab: Lab, workflow_id: str) -> list[Any]:
    row = await lab.status(workflow_id)
    return [row[column] for column in COLUMNS]


@pytest.mark.parametrize("queue", [None, "q"], ids=["here", "queued"])
async def test_a_workflow_and_its_steps_see_for_whom_they_run(lab: Lab, queue: str | None) -> None:
    """The row has the words of the wire: roles are a list of JSON, with a space after commas."""
    await lab.start(tells, queues=[Queue("q")])
    told = await tells.options(id="w", queue=queue, assumed_role="boss", **BOB)()
    assert told == [["bob", ["staff", "boss"], "boss"]] * 2
    assert await stored(lab, "w") == ["bob", '["staff", "boss"]', "boss"]
    assert await tells.options(id="n")() == [[None, [], None]] * 2
    assert await stored(lab, "n") == [None, None, None]
    assert who() == [None, [], None]


async def test_children_run_for_the_same_user_unless_told_otherwise(lab: Lab) -> None:
    await lab.start(tells, guarded, family, queues=[Queue("q")])
    own, queued, boss, other = await family.options(**BOB)()
    assert own == queued == ["bob", ["staff", "boss"], None]
    assert boss == ["bob", ["staff", "boss"], "boss"]
    assert other == ["ann", [], None]
    assert await stored(lab, "queued") == ["bob", '["staff", "boss"]', None]
    assert await stored(lab, "boss") == ["bob", '["staff", "boss"]', "boss"]
    assert await stored(lab, "other") == ["ann", None, None]


async def test_it_goes_on_for_the_same_user_after_a_death_and_in_a_fork(lab: Lab) -> None:
    engine = await lab.start(guarded, queues=[Queue("q")])
    await guarded.options(id="w", **BOB)()
    await lab.rerun("w")
    assert await engine.handle("w") == ["bob", ["staff", "boss"], "boss"]
    fork = await engine.workflows.fork("w")
    assert await fork.result() == ["bob", ["staff", "boss"], "boss"]
    assert await stored(lab, fork.workflow_id) == ["bob", '["staff", "boss"]', "boss"]


async def test_whoever_lacks_every_required_role_is_refused_before_a_row_is_written(
    lab: Lab,
) -> None:
    await lab.start(guarded, queues=[Queue("q")])
    for options in ({}, EVE, {"authenticated_user": "bob"}):
        for queue in (None, "q"):
            with pytest.raises(NotAuthorized, match="'admin', 'boss'") as refusal:
                await guarded.options(queue=queue, **options)()
            with pytest.raises(NotAuthorized):
                await guarded.options(queue=queue, **options).start_many([()])
    assert refusal.value.required == ["admin", "boss"]
    assert await lab.count() == 0
    assert begun == []


async def test_a_body_may_catch_that_a_child_is_refused(memory_lab: Lab) -> None:
    """It takes no id, and is refused again at every replay."""

    @workflow
    async def tries() -> str:
        try:
            await guarded()
        except NotAuthorized as refusal:
            return f"{refusal.user}"
        return "allowed"

    await memory_lab.start(tries, guarded)
    assert await tries.options(id="w", **EVE)() == "eve"
    await memory_lab.rerun("w")
    assert await memory_lab.engine.handle("w") == "eve"
    assert await memory_lab.history("w") == []


@pytest.mark.parametrize(
    "roles", [None, "", "[]", '["staff"]', "boss", '"boss"', '[["boss"]]', "{"]
)
async def test_a_row_without_a_required_role_ends_before_its_body(
    lab: Lab, roles: str | None
) -> None:
    """Whoever wrote it, and whatever stands there; the error is the outcome."""
    engine = await lab.start(guarded, queues=[Queue("q")])
    eve: Any = {"authenticated_user": "eve", "delay": 600}
    handle = await engine.enqueue("guarded", queue="q", id="w", **eve)
    await lab.backdoor.run("UPDATE workflow_status SET authenticated_roles = ?", roles)
    lab.clock.leap(601)
    with pytest.raises(NotAuthorized) as refusal:
        await handle.result(timeout=30)
    assert (refusal.value.workflow, refusal.value.user) == ("guarded", "eve")
    assert (await lab.until("w"))["status"] == WorkflowState.ERROR
    assert (await lab.error("w") or {})["name"] == "NotAuthorized"
    assert begun == []


async def test_a_client_names_for_whom_a_workflow_runs(shared_lab: Lab) -> None:
    lab = shared_lab
    await lab.start(guarded, queues=[Queue("q")])
    async with Client(lab.url) as client:
        allowed = await client.enqueue("guarded", queue="q", **BOB)
        refused = await client.enqueue("guarded", queue="q", **EVE)
        assert await allowed.result(timeout=30) == ["bob", ["staff", "boss"], "boss"]
        with pytest.raises(NotAuthorized):
            await refused.result(timeout=30)
        found = await client.workflows.list(users="bob")
    assert [row.workflow_id for row in found] == [allowed.workflow_id]
    assert json.loads(found[0].authenticated_roles or "") == ["staff", "boss"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"authenticated_user": ""}, "authenticated_user"),
        ({"authenticated_user": 3}, "authenticated_user"),
        ({"authenticated_user": "b\x00b"}, "authenticated_user"),
        ({"authenticated_roles": ["boss"]}, "authenticated_user"),
        ({**BOB, "authenticated_roles": "boss"}, "authenticated_roles"),
        ({**BOB, "authenticated_roles": [""]}, "authenticated_roles"),
        ({**BOB, "authenticated_roles": [1]}, "authenticated_roles"),
        ({**BOB, "assumed_role": "admin"}, "assumed_role"),
        ({"assumed_role": "boss"}, "assumed_role"),
    ],
    ids=repr,
)
def test_what_names_nobody_is_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        tells.options(**given)


@pytest.mark.parametrize("roles", ["boss", 3, [""], [1]], ids=repr)
def test_required_roles_are_a_list_of_names(roles: Any) -> None:
    with pytest.raises(ConfigurationError, match="required_roles"):
        workflow(required_roles=roles)
