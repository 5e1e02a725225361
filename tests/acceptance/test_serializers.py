"""Workflows in a format of the user's own, on their way through a database."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import Client, Queue, UnexpectedStep, WorkflowState, step, workflow
from perdure.errors import FormatUnavailable, UnserializableValue
from tests.support.engines import Lab
from tests.support.serialized import Spelled

OWN: dict[str, Any] = {"own": Spelled()}
WHEN = datetime(2026, 11, 30, 12, 0, 0, 7, tzinfo=UTC)


class Missing(Exception):
    """An application's own error."""


@step(name="tag")
async def tag(words: set[str]) -> frozenset[str]:
    return frozenset(words)


@step(name="miss")
async def miss() -> None:
    raise Missing("gone", 3)


@workflow(name="leaf")
async def leaf(when: datetime) -> datetime:
    return when


@workflow(name="tags")
async def tags(words: set[str], *, when: datetime) -> tuple[frozenset[str], datetime]:
    with pytest.raises(Missing, match="gone"):
        await miss()
    return await tag(words), await leaf(when)


@workflow(name="breaks")
async def breaks() -> None:
    raise Missing("gone")


ALL = (tags, leaf, breaks)
RESULT = (frozenset({"a", "b"}), WHEN)


async def labels(lab: Lab, workflow_id: str) -> list[str | None]:
    return [row["serialization"] for row in await lab.steps(workflow_id)]


@pytest.mark.parametrize("queue", [None, "q"], ids=["here", "queued"])
async def test_arguments_steps_errors_children_and_results_are_written_in_it(
    lab: Lab, queue: str | None
) -> None:
    """Typed as ever; nothing readable is left in the rows."""
    engine = await lab.start(*ALL, queues=[Queue("q")], serializers=OWN, errors=[Missing])
    bound = tags.options(serializer="own", id="w", queue=queue)
    assert await bound({"a", "b"}, when=WHEN) == RESULT
    assert (await lab.status("w"))["serialization"] == "own"
    assert (await lab.status("w-3"))["serialization"] == "own"
    assert await labels(lab, "w") == ["own", "own", None, "own"]
    texts = [await lab.input("w"), await lab.output("w"), await lab.input("w-3")]
    texts += [row["output"] or row["error"] for row in await lab.steps("w")]
    assert all(text.startswith("~") for text in texts if text)
    await lab.rerun("w")
    assert await engine.handle("w", tags) == RESULT
    with pytest.raises(Missing, match="gone"):
        await breaks.options(serializer="own", queue=queue)()


async def test_a_death_anywhere_changes_nothing(memory_lab: Lab) -> None:
    await memory_lab.start(*ALL, serializers=OWN, errors=[Missing])
    await tags.options(serializer="own", id="w")({"a", "b"}, when=WHEN)
    before = [(row["function_name"], row["output"]) for row in await memory_lab.steps("w")]
    for recorded in range(len(before)):
        await memory_lab.cut("w", recorded + 1)
        await memory_lab.rerun("w")
        assert await memory_lab.engine.handle("w", tags) == RESULT
    assert [(row["function_name"], row["output"]) for row in await memory_lab.steps("w")] == before


async def test_a_child_may_be_given_the_shared_format(memory_lab: Lab) -> None:
    @workflow
    async def mixed() -> datetime:
        return await leaf.options(serializer="portable_json", id="child")(WHEN)

    await memory_lab.start(mixed, leaf, serializers=OWN)
    assert await mixed.options(serializer="own")() == WHEN
    assert (await memory_lab.status("child"))["serialization"] == "portable_json"


async def test_a_client_writes_and_reads_it(shared_lab: Lab) -> None:
    lab = shared_lab
    await lab.start(*ALL, queues=[Queue("q")], serializers=OWN, errors=[Missing])
    args: dict[str, Any] = {"args": [["a", "b"]], "kwargs": {"when": WHEN.isoformat()}}
    async with Client(lab.url, serializers=OWN) as client:
        await client.enqueue("tags", queue="q", id="w", serializer="own", **args)
        result = client.handle("w", into=tuple[frozenset[str], datetime])
        assert await result.result(timeout=30) == RESULT
    async with Client(lab.url) as client:
        with pytest.raises(FormatUnavailable, match=r"serializers="):
            await client.handle("w")


async def test_where_it_is_not_known_a_workflow_waits_for_who_knows_it(shared_lab: Lab) -> None:
    """Before its body, or in the midst of it; nothing is misread or done again."""
    lab = shared_lab
    knows = await lab.start(*ALL, queues=[Queue("q")], serializers=OWN, errors=[Missing])
    await tags.options(serializer="own", id="w")({"a", "b"}, when=WHEN)
    await knows.stop()
    before = await lab.steps("w")
    ignorant = await lab.start(*ALL)
    await lab.hand_back("w")
    with pytest.raises(FormatUnavailable, match="knows no format 'own'"):
        await ignorant.handle("w")
    # However slow the machine, it is not tried again before all of its row is exchanged.
    lab.store.hold("sweep")
    waiting = asyncio.ensure_future(ignorant.handle("w").result())
    await lab.backdoor.run(
        "UPDATE workflow_input SET inputs = ?",
        '{"positionalArgs": [["a", "b"]], "namedArgs": {"when": "2026-11-30T12:00:00.000007Z"}}',
    )
    await lab.backdoor.run("UPDATE workflow_status SET serialization = 'portable_json'")
    await lab.hand_back("w")
    with pytest.raises(UnexpectedStep, match="knows no format 'own'"):
        await waiting
    await lab.until("w", WorkflowState.DELAYED)
    assert await lab.steps("w") == before
    await ignorant.stop()
    lab.clock.leap(60)
    again = await lab.start(*ALL, serializers=OWN, errors=[Missing])
    assert await again.handle("w", tags) == RESULT


async def test_a_result_that_it_cannot_write_is_the_workflow_s_error(memory_lab: Lab) -> None:
    """And nothing is left PENDING; neither is a start whose arguments it cannot write."""

    class Picky(Spelled):
        def encode(self, tree: Any, /) -> str:
            if "secret" in str(tree):
                raise PermissionError("not this")
            return super().encode(tree)

    @workflow
    async def tells(word: str) -> str:
        return word + "et"

    await memory_lab.start(tells, serializers={"own": Picky()})
    bound = tells.options(serializer="own")
    with pytest.raises(UnserializableValue, match="encode of the serializer 'own' raised"):
        await bound("secr")
    with pytest.raises(UnserializableValue, match="not this"):
        await bound("secret")
    (row,) = await memory_lab.rows("SELECT status FROM workflow_status")
    assert row["status"] == WorkflowState.ERROR
