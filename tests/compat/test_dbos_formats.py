"""A format of one's own, and users, shared with the real dbos."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import Queue, current, workflow
from tests.compat.conftest import Dbos
from tests.support.engines import Lab

pytestmark = pytest.mark.usefixtures("dbos_can_write")


class Reversed:
    """The same format as the one that the client of the real dbos is given."""

    def encode(self, tree: Any, /) -> str:
        return json.dumps(tree)[::-1]

    def decode(self, text: str, /) -> Any:
        return json.loads(text[::-1])


@workflow(name="adds")
async def adds(number: int, numbers: set[int]) -> set[int]:
    return numbers | {number}


@workflow(name="guarded", required_roles=["boss"])
async def guarded() -> list[Any]:
    here = current()
    return [here.authenticated_user, list(here.authenticated_roles), here.assumed_role]


async def test_what_it_enqueues_in_a_format_of_its_own_runs_here_and_is_answered_in_it(
    shared_lab: Lab, dbos: Dbos
) -> None:
    """The arguments in the shape in which it gives them to its serializer."""
    lab = shared_lab
    engine = await lab.start(adds, queues=[Queue("q")], serializers={"reversed": Reversed()})
    asked = {"workflow_name": "adds", "queue_name": "q", "workflow_id": "w"}
    await dbos.ask("enqueue", 3, [1, 2], own=True, **asked)
    assert await dbos.ask("result", "w", own=True) == [1, 2, 3]
    assert (await lab.status("w"))["serialization"] == "reversed"
    assert await lab.output("w") == "]3 ,2 ,1["
    assert await engine.handle("w", adds) == {1, 2, 3}


async def test_what_is_written_here_in_that_format_it_reads(shared_lab: Lab, dbos: Dbos) -> None:
    await shared_lab.start(adds, serializers={"reversed": Reversed()})
    await adds.options(serializer="reversed", id="w")(3, {1})
    (listed,) = await dbos.ask("list_workflows", workflow_ids=["w"], own=True)
    assert listed["input"] == {"args": [3, [1]], "kwargs": {}}
    assert listed["output"] == [1, 3]


async def test_the_user_it_names_is_for_whom_a_workflow_runs(shared_lab: Lab, dbos: Dbos) -> None:
    """And it shows the users that are named here."""
    lab = shared_lab
    await lab.start(guarded, queues=[Queue("q")])
    user = {"authenticated_user": "bob", "authenticated_roles": ["staff", "boss"]}
    asked = {"workflow_name": "guarded", "queue_name": "q", "workflow_id": "w"}
    await dbos.ask("enqueue", **asked, **user)
    assert await dbos.ask("result", "w") == ["bob", ["staff", "boss"], "boss"]
    await guarded.options(id="ours", assumed_role="boss", **user)()  # type: ignore[typeddict-item]
    for each in await dbos.ask("list_workflows", workflow_ids=["w", "ours"]):
        assert (each["authenticated_user"], each["authenticated_roles"]) == (
            "bob",
            ["staff", "boss"],
        )
