"""Removing what has ended against whoever copies it or lets it go on: one of two outcomes."""

from collections.abc import Awaitable, Callable
from typing import Any

from perdure.errors import WorkflowNotFound
from perdure.model.ids import WorkflowId
from perdure.model.management import Fork, ForkItem, Managed, Resume, Rewind
from perdure.model.retention import Expired
from tests.support import rows
from tests.support.races import race, rounds
from tests.support.store import Process, Site

AT_ONCE = 25
ROUNDS = rounds(4 * AT_ONCE) // AT_ONCE
STEPS = 3

Attempt = Callable[[], Awaitable[Any]]


async def ended(site: Site, process: Process, state: str) -> list[WorkflowId]:
    """Workflows that ended so, with inputs and steps."""
    new = [rows.direct() for _ in range(AT_ONCE)]
    await process.start(*new)
    steps = [rows.checkpoint(run, step) for run in new for step in range(1, STEPS + 1)]
    await process.store.record(steps)
    await site.backdoor.run(
        f"UPDATE workflow_status SET status = '{state}', completed_at = 5, owner_xid = NULL"
        " WHERE status = 'PENDING'"
    )
    return [run.workflow_id for run in new]


async def whole(site: Site, workflow_id: WorkflowId) -> bool:
    """Whether a workflow has its row, input and steps; it must not have a part of them."""
    parts = {
        await site.exists(workflow_id),
        await site.payload("workflow_input", workflow_id) is not None,
        len(await site.steps(workflow_id)) == STEPS,
    }
    assert len(parts) == 1
    return parts.pop()


async def against_purges(
    site: Site, me: Process, state: str, command: Callable[[WorkflowId], Any]
) -> dict[WorkflowId, Managed]:
    """What came of a command about each of some workflows, all of which were removed meanwhile."""
    remover = await site.process()
    ids = await ended(site, me, state)
    found: dict[WorkflowId, Managed] = {}

    def purging() -> Attempt:
        return lambda: remover.store.purge(Expired(1_000), 0, 2)

    def commanding(workflow_id: WorkflowId) -> Attempt:
        async def give() -> None:
            answer = await me.store.manage(command(workflow_id))
            assert isinstance(answer.standing, Managed)
            found[workflow_id] = answer.standing

        return give

    runners = [each for workflow_id in ids for each in (commanding(workflow_id), purging())]
    await race(len(found), *runners)
    return found


def is_refused(managed: Managed) -> bool:
    """Whether the workflow was not there any more."""
    assert managed.refusal is None or isinstance(managed.refusal, WorkflowNotFound)
    return managed.refusal is not None


async def test_a_fork_is_whole_or_refused(site: Site, me: Process) -> None:
    """“A row that somebody has locked stays for another time”: a copy is never made of a part."""
    for _ in range(ROUNDS):
        found = await against_purges(
            site,
            me,
            "ERROR",
            lambda source: Fork((ForkItem(source, WorkflowId(f"{source} again"), STEPS + 1),)),
        )
        for source, managed in found.items():
            fork = WorkflowId(f"{source} again")
            assert await whole(site, fork) is not is_refused(managed)
            assert not (await whole(site, source) and is_refused(managed))


async def test_what_is_resumed_is_whole(site: Site, me: Process) -> None:
    """“A row that was resumed or rewound meanwhile is wanted no more”, or it is gone."""
    for _ in range(ROUNDS):
        found = await against_purges(site, me, "CANCELLED", lambda each: Resume((each,)))
        for workflow_id, managed in found.items():
            assert await whole(site, workflow_id) is not is_refused(managed)


async def test_what_is_rewound_is_whole(site: Site, me: Process) -> None:
    """“A row that was resumed or rewound meanwhile is wanted no more”, or it is gone."""
    for _ in range(ROUNDS):
        found = await against_purges(
            site, me, "SUCCESS", lambda each: Rewind(each, rows.token(), STEPS + 1)
        )
        for workflow_id, managed in found.items():
            assert await whole(site, workflow_id) is not is_refused(managed)
