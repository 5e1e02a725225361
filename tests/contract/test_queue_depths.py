"""`QueueStore.queue_depths` and `has_keyless`: what is in queues."""

import pytest

from perdure.model.queue import COMPLETED_WINDOW_MS, QueueDepth
from perdure.model.workflow import Fence
from tests.support import rows
from tests.support.store import Process, Site


async def test_an_empty_queue_is_empty(me: Process) -> None:
    """“What is in each of these queues, registered or not, in the order asked”."""
    await me.queue("b")
    assert await me.store.queue_depths(["b", "nowhere", "a"]) == [
        QueueDepth(name, 0, 0, 0, None, 0) for name in ("b", "nowhere", "a")
    ]
    assert await me.store.queue_depths([]) == []


async def test_workflows_are_counted_by_state(site: Site, me: Process) -> None:
    """“What is in a queue now”; “`oldest_at_ms` is when the oldest ENQUEUED workflow was
    enqueued”."""
    first = await me.waiting()
    site.clock.advance(5000)
    for _ in range(2):
        await me.waiting()
    await me.waiting(delay_ms=90_000)
    await me.waiting(queue_name="other")
    oldest = (await site.status(first.workflow_id))["created_at"]
    (depth, other) = await me.store.queue_depths([rows.QUEUE, "other"])
    assert depth == QueueDepth(rows.QUEUE, 3, 1, 0, oldest, 0)
    assert (other.enqueued, other.delayed, other.pending) == (1, 0, 0)
    (run,) = await me.claim(limit=1)
    (depth,) = await me.store.queue_depths([rows.QUEUE])
    assert (depth.enqueued, depth.delayed, depth.pending) == (2, 1, 1)
    assert run.workflow_id == first.workflow_id
    assert depth.oldest_at_ms is not None
    assert depth.oldest_at_ms >= oldest + 5000


async def test_completions_are_counted_over_a_while(site: Site, me: Process) -> None:
    """“`completed` counts what ended in the last `COMPLETED_WINDOW_MS`”."""
    await me.start(*[rows.enqueued() for _ in range(3)])
    one, two, three = [Fence(run.workflow_id, run.owner) for run in await me.claim()]
    await me.store.finish([rows.finish(one)])
    site.clock.advance(COMPLETED_WINDOW_MS // 2)
    await me.store.finish([rows.finish(two)])
    (depth,) = await me.store.queue_depths([rows.QUEUE])
    assert (depth.pending, depth.completed) == (1, 2)
    site.clock.advance(COMPLETED_WINDOW_MS // 2)
    await me.store.finish([rows.finish(three)])
    (depth,) = await me.store.queue_depths([rows.QUEUE])
    assert (depth.pending, depth.completed) == (0, 2)
    site.clock.advance(COMPLETED_WINDOW_MS)
    (depth,) = await me.store.queue_depths([rows.QUEUE])
    assert depth == QueueDepth(rows.QUEUE, 0, 0, 0, None, 0)


async def test_rows_of_another_application_are_not_counted(site: Site, me: Process) -> None:
    """“What is in a queue now, of this application and of none”."""
    now = await me.store.now_ms()
    for application in ("other", None, "app"):
        for status in ("ENQUEUED", "DELAYED", "PENDING", "SUCCESS"):
            await site.foreign(
                status=status,
                application_name=application,
                created_at=now - (2 if application == "other" else 1),
                completed_at=now if status == "SUCCESS" else None,
            )
    (depth,) = await me.store.queue_depths([rows.QUEUE])
    assert depth == QueueDepth(rows.QUEUE, 2, 2, 2, now - 1, 2)


@pytest.mark.parametrize("status", ["ENQUEUED", "DELAYED"])
async def test_what_waits_without_a_partition_key(site: Site, me: Process, status: str) -> None:
    """“Whether something waits in the queue that has no partition key”: in either way, and of this
    application or of none."""
    await site.foreign(status=status, queue_partition_key="k")
    await site.foreign(status="PENDING")
    await site.foreign(status=status, queue_name="other")
    await site.foreign(status=status, application_name="other")
    assert not await me.store.has_keyless(rows.QUEUE)
    await site.foreign(status=status, application_name=None)
    assert await me.store.has_keyless(rows.QUEUE)
    assert not await me.store.has_keyless("nothing")
