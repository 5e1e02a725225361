"""Between a claim and its history."""

from __future__ import annotations

from perdure import Queue, step, workflow
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

    await lab.start(unread, queues=[Queue("q")])
    lab.store.fail("history", DatabaseRejected("the history is out of reach"))
    await unread.options(id="w", queue="q").start()
    row = await lab.until("w")
    assert (row["status"], row["recovery_attempts"], ran) == ("SUCCESS", 1, ["counted"])
    assert (begun, lab.store.counts["release"]) == (["unread"], 1)
