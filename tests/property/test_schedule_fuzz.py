"""Whatever scopes a body opens, wherever its run is killed, and however its tasks are ordered then:
what was recorded stands, is not done again, and leads to the same end.

`PERDURE_FUZZ` is the number of programs; by default few enough for every commit.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perdure import Engine
from perdure.logic.scopes import CLOSE
from tests.support.backdoor import MemoryBackdoor
from tests.support.engines import Lab
from tests.support.scope_programs import (
    ENDED,
    PROGRAMS,
    SCHEDULE,
    Node,
    has,
    is_steady,
    labelled,
    program,
    small,
)
from tests.support.watched import WatchedStore

EXAMPLES = int(os.environ.get("PERDURE_FUZZ", "150"))
PATIENCE_S = 30.0
MESSAGES = 3

Row = dict[str, Any]


class Bench:
    """One engine for all programs, on a database in memory."""

    def __init__(self) -> None:
        self.lab = Lab("memory:")
        self.engine = Engine("memory:", workflows=[program, small], heartbeat=0.02, grace=0)
        self.seed = 0
        self._count = 0

    async def start(self) -> None:
        """Begin."""
        await self.engine.start()
        self.lab.engines.append(self.engine)
        self.lab.stores.append(WatchedStore(self.engine.kernel.store))
        assert isinstance(self.lab.backdoor, MemoryBackdoor)
        await small.options(id=ENDED, engine=self.engine)("")

    async def first(self, root: Node, seed: int) -> str:
        """Run a program for the first time; returns its id."""
        self.seed = seed
        self._count += 1
        workflow_id = f"w{self._count}"
        SCHEDULE.begin(seed)
        handle = await program.options(id=workflow_id, engine=self.engine).start(root)
        for number in range(MESSAGES if has(root, "recv") else 0):
            await handle.send(number, "topic")
        await self.ended(workflow_id)
        return workflow_id

    async def again(self, workflow_id: str) -> None:
        """Run it once more on what is recorded, under another order of tasks."""
        self.seed += 1
        SCHEDULE.begin(self.seed)
        await self.lab.hand_back(workflow_id)
        self.engine.kernel.announce_queues()
        await self.ended(workflow_id)

    async def ended(self, workflow_id: str) -> None:
        """Wait for the outcome."""
        async with asyncio.timeout(PATIENCE_S):
            await self.engine.handle(workflow_id)

    async def history(self, workflow_id: str) -> dict[int, Row]:
        """The rows by their ids, in the order in which they were written."""
        found = await self.lab.rows(
            "SELECT function_id, function_name, output, error, child_workflow_id"
            " FROM operation_outputs WHERE workflow_uuid = ? ORDER BY rowid",
            workflow_id,
        )
        return {int(row["function_id"]): row for row in found}

    async def forget(self, workflow_id: str, step_ids: set[int]) -> None:
        """As if these had not been written, with what they took."""
        await self.lab.forget(workflow_id, step_ids)
        for step_id in step_ids:
            await self.lab.backdoor.run(
                "UPDATE notifications SET consumed = FALSE, consumed_by_function_id = NULL"
                " WHERE destination_uuid = ? AND consumed_by_function_id = ?",
                workflow_id,
                step_id,
            )

    async def check_messages(self, workflow_id: str, history: dict[int, Row]) -> None:
        """Each message was taken by the one step that recorded it, or by none."""
        taken = await self.lab.rows(
            "SELECT message, consumed_by_function_id AS step FROM notifications"
            " WHERE destination_uuid = ? AND consumed",
            workflow_id,
        )
        recorded = {
            (step_id, row["output"])
            for step_id, row in history.items()
            if row["function_name"] == "DBOS.recv" and row["output"] != "null"
        }
        assert {(row["step"], row["message"]) for row in taken} == recorded


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One loop for all programs."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def bench(runner: asyncio.Runner) -> Iterator[Bench]:
    """The engine on it."""
    bench = Bench()
    runner.run(bench.start())
    yield bench
    runner.run(bench.engine.stop())


def void_of(history: dict[int, Row]) -> set[int]:
    """The close rows whose ground is missing: cut away, or put back with a loser's message."""
    return {
        step_id
        for step_id, row in history.items()
        if row["function_name"].endswith(CLOSE)
        and json.loads(row["output"])["highest"] not in (None, *history)
    }


async def check_replay(bench: Bench, workflow_id: str) -> dict[int, Row]:
    """A whole history replays to itself, and nothing is done again; returns it."""
    history = await bench.history(workflow_id)
    await bench.check_messages(workflow_id, history)
    outcome = await bench.lab.output(workflow_id)
    await bench.again(workflow_id)
    assert SCHEDULE.effects == []
    assert await bench.history(workflow_id) == history
    assert await bench.lab.output(workflow_id) == outcome
    return history


async def check_rest(bench: Bench, workflow_id: str, kept: dict[int, Row]) -> dict[int, Row]:
    """After a cut the run comes to an end that has room for what was kept; returns its history."""
    void = void_of(kept)
    await bench.again(workflow_id)
    assert (await bench.lab.status(workflow_id))["status"] == "SUCCESS"
    assert not set(SCHEDULE.effects) & set(kept)
    history = await bench.history(workflow_id)
    for step_id, row in kept.items():
        is_put_back = row["function_name"] == "DBOS.recv" and step_id not in history
        if step_id not in void and not is_put_back:
            assert history[step_id] == row
    return history


async def check(bench: Bench, root: Node, seed: int, where: int, *, rewinds: bool) -> None:
    workflow_id = await bench.first(root, seed)
    outcome = await bench.lab.output(workflow_id)
    whole = await check_replay(bench, workflow_id)
    assert has(root, "recv") or not void_of(whole)
    written = sorted(whole) if rewinds else list(whole)
    kept = written[: where % (len(written) + 1)]
    await bench.forget(workflow_id, set(whole) - set(kept))
    rest = await check_rest(bench, workflow_id, {each: whole[each] for each in kept})
    is_decided = not any(
        row["function_name"].endswith(CLOSE) and step_id not in kept
        for step_id, row in whole.items()
    )
    if is_steady(root) or (is_decided and not rewinds and not has(root, "recv", "event")):
        assert await bench.lab.output(workflow_id) == outcome
        assert {each: row["function_name"] for each, row in rest.items()} == {
            each: row["function_name"] for each, row in whole.items()
        }
    await check_replay(bench, workflow_id)


JOINS_A_CHILD: Node = [
    "select",
    [
        [
            "select",
            [["gather", [["recv", "", 0], ["step", "", 0]], False], ["seq", [["child", "", 13]]]],
        ]
    ],
]
"""A loser finds its child started and does not get to say so."""


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    root=PROGRAMS,
    seed=st.integers(0, 10**6),
    where=st.integers(0, 100),
    rewinds=st.booleans(),
)
@example(root=JOINS_A_CHILD, seed=0, where=0, rewinds=True)
def test_any_program_killed_anywhere_comes_to_a_consistent_end(
    runner: asyncio.Runner, bench: Bench, root: Node, seed: int, where: int, rewinds: bool
) -> None:
    runner.run(check(bench, labelled(root), seed, where, rewinds=rewinds))
