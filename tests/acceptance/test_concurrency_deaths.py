"""A process that dies at any write of a workflow of scopes: another brings it to the same end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.deaths import crash
from tests.support.engines import Lab
from tests.support.scope_programs import SCHEDULE, Node, labelled, program, small
from tests.support.watched import Gate, Rule, WatchedStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CALL: Node = ["step", "", 5]
TWO: Node = ["seq", [CALL, CALL]]
ROOT: Node = [
    "seq",
    [
        ["gather", [TWO, ["select", [["sleep", "", 10**8], TWO]], ["child", "", 0]], False],
        ["try", ["timeout", ["seq", [CALL, ["fail", "", 0]]], 10**8]],
        CALL,
    ],
]
"""Its races have one possible end, so that every execution comes to the same."""


def dies_at(store: WatchedStore, number: int, *, after: bool) -> Gate:
    """Hold that write of a step or verdict, before the store does it or before it is heard of."""
    gate, writes = Gate(), 0

    def rule(method: str) -> Rule | None:
        nonlocal writes
        writes += method in ("record", "close_scopes")
        is_it = method in ("record", "close_scopes") and writes == number
        return Rule(1, gate=gate, after=after) if is_it else None

    store._next_rule = rule  # type: ignore[method-assign]  # noqa: SLF001
    return gate


async def until_death(lab: Lab, number: int, *, after: bool) -> bool:
    """Run the workflow up to that write and end its process there; False if it has fewer."""
    SCHEDULE.begin(number)
    engine = await lab.start(program, small)
    gate = dies_at(lab.store, number, after=after)
    handle = await program.options(id=f"w{number}", engine=engine).start(labelled(ROOT))
    ended = asyncio.ensure_future(handle.result())
    death = asyncio.ensure_future(gate.reached())
    await asyncio.wait([ended, death], return_when=asyncio.FIRST_COMPLETED)
    is_dying = not ended.done()
    for each in (ended, death):
        each.cancel()
    await asyncio.gather(ended, death, return_exceptions=True)
    await (crash(engine) if is_dying else engine.stop())
    return is_dying


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_death_at_any_write_changes_nothing_of_the_end(
    shared_lab: Lab, *, after: bool
) -> None:
    lab, number, results = shared_lab, 0, []
    is_dying = True
    while is_dying:
        number += 1
        workflow_id = f"w{number}"
        is_dying = await until_death(lab, number, after=after)
        kept: dict[int, Any] = {row["function_id"]: row for row in await lab.steps(workflow_id)}
        SCHEDULE.begin(1_000 + number)
        survivor = await lab.start(program, small)
        async with asyncio.timeout(60):
            results.append(await survivor.handle(workflow_id))
        assert not set(SCHEDULE.effects) & set(kept)
        now = {row["function_id"]: row for row in await lab.steps(workflow_id)}
        assert {each: now[each] for each in kept} == kept
        await survivor.stop()
    assert number > 8, "a program of this many scopes writes at least so often"
    assert results == [results[-1]] * number
