"""Debounced calls of the real dbos and of ours, which become one workflow."""

from __future__ import annotations

import pytest

from perdure import Debounce, Queue, QueueDeduplicated, workflow
from tests.compat.conftest import Dbos
from tests.support.engines import Lab

pytestmark = pytest.mark.usefixtures("dbos_can_write")

HOUR = 3_600
MAIL = Queue("mail")


@workflow(name="digest")
async def digest(*words: str) -> list[str]:
    return list(words)


async def test_dbos_pushes_ours_back(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    await lab.start(digest, queues=[MAIL])
    debounced = digest.options(debounce=Debounce("ada", period=HOUR, timeout=3 * HOUR), queue=MAIL)
    ours = await debounced.start("one")
    before = await lab.status(ours.workflow_id)
    theirs = await dbos.ask("debounce", "digest", "mail", None, "ada", 2 * HOUR, "two", "more")
    assert theirs == ours.workflow_id
    after = await lab.status(ours.workflow_id)
    assert after["delay_until_epoch_ms"] > before["delay_until_epoch_ms"]
    assert after["debounce_deadline_epoch_ms"] == before["debounce_deadline_epoch_ms"]
    await dbos.ask("debounce", "digest", "mail", None, "ada", 9 * HOUR, "three")
    capped = await lab.status(ours.workflow_id)
    assert capped["delay_until_epoch_ms"] == before["debounce_deadline_epoch_ms"]
    lab.clock.leap(4 * HOUR)
    assert await ours.result() == ["three"]


async def test_we_push_theirs_back(shared_lab: Lab, dbos: Dbos) -> None:
    """And make rows as theirs are."""
    lab = shared_lab
    await lab.start(digest, queues=[MAIL])
    theirs = await dbos.ask("debounce", "digest", "mail", 5 * HOUR, "ada", HOUR, "one")
    before = await lab.status(theirs)
    debounced = digest.options(debounce=Debounce("ada", period=2 * HOUR), queue=MAIL)
    ours = await debounced.start("two")
    assert ours.workflow_id == theirs
    after = await lab.status(theirs)
    assert after["delay_until_epoch_ms"] > before["delay_until_epoch_ms"]
    other = await digest.options(
        debounce=Debounce("bob", period=HOUR, timeout=5 * HOUR), queue=MAIL
    ).start("three")
    made = await lab.status(other.workflow_id)
    for column in ("status", "queue_name", "is_debounced", "priority", "queue_partition_key"):
        assert made[column] == before[column]
    ours_ms, theirs_ms = [
        row["debounce_deadline_epoch_ms"] - row["delay_until_epoch_ms"] for row in (made, before)
    ]
    assert ours_ms == 4 * HOUR * 1000
    # It reads its clock for each of the two, and may stand still in between.
    assert abs(theirs_ms - ours_ms) <= 60_000
    assert made["deduplication_id"] == "digest-bob"
    lab.clock.leap(4 * HOUR)
    assert await ours.result() == ["two"]
    fresh = await dbos.ask("debounce", "digest", "mail", None, "ada", HOUR, "four")
    assert fresh != theirs


async def test_whoever_else_holds_the_key_is_named(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    await lab.start(digest, queues=[MAIL], listen=[])
    held = await dbos.ask(
        "enqueue", workflow_name="digest", queue_name="mail", deduplication_id="digest-ada"
    )
    with pytest.raises(QueueDeduplicated) as caught:
        await digest.options(debounce=Debounce("ada", period=HOUR), queue=MAIL).start("one")
    assert caught.value.holder == held
