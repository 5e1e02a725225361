"""Between a claim and its history."""

from __future__ import annotations

from perdure import Queue, run_step, step, workflow
from perdure.errors import DatabaseRejected
from tests.support.engines import Lab


async def test_runs_whose_history_cannot_be_read_are_given_back(lab: Lab) -> None:
    """No body begins, nothing is recorded, and the attempt does not count."""
    begun: list[str] = []
    ran: list[str] = []

    @step(name="counted")
    async def counted() -> None:
        ran.append("counted")

    @workflow(name="unread")
    async def unread() -> None:
        begun.append("unread")
        await counted()

    await lab.start(unread)
    await unread.options(id="w")()
    begun.clear()
    lab.store.forget()
    lab.store.fail("history", DatabaseRejected("the history is out of reach"))
    row = await lab.rerun("w")
    assert (row["status"], row["recovery_attempts"], ran) == ("SUCCESS", 2, ["counted"])
    assert (begun, lab.store.counts["release"]) == (["unread"], 1)


async def test_a_run_that_is_claimed_for_the_first_time_has_no_history_to_read(lab: Lab) -> None:
    """One that was forked at a step has."""

    @workflow(name="fresh")
    async def fresh() -> list[int]:
        return [await run_step(f"s{number}", lambda number=number: number) for number in range(2)]

    engine = await lab.start(fresh, queues=[Queue("q")])
    await (await fresh.options(id="w", queue="q").start())
    assert lab.store.counts["history"] == 0
    fork = await engine.workflows.fork("w", 2)
    assert await fork == [0, 1]
    assert lab.store.batches("history") == [[fork.workflow_id]]
