"""Durable sleep: the instant of waking is fixed once, before the wait."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure import run_step, sleep, step, workflow
from perdure.errors import DatabaseUnavailable, InvalidArgument
from tests.support.engines import Lab
from tests.support.workflows import naps

DAY = 86_400


async def test_a_sleep_waits_and_is_a_row_with_its_instant_of_waking(lab: Lab) -> None:
    """The row is `DBOS.sleep`; its output is seconds as a JSON float, its completion the waking."""
    await lab.start(naps)
    await naps.options(id="n").start(30 * DAY)
    await lab.until_asleep(29 * DAY)
    (row,) = await lab.steps("n")
    assert (row["function_id"], row["function_name"]) == (1, "DBOS.sleep")
    assert (row["serialization"], row["error"]) == ("portable_json", None)
    assert "." in row["output"]
    wake_ms = round(json.loads(row["output"]) * 1000)
    assert wake_ms == row["completed_at_epoch_ms"] == row["started_at_epoch_ms"] + 30 * DAY * 1000
    assert await lab.state("n") == "PENDING"
    lab.clock.leap(30 * DAY)
    assert (await lab.until("n"))["status"] == "SUCCESS"
    assert await lab.steps("n") == [row]


async def test_a_replayed_sleep_waits_only_for_what_is_left(lab: Lab) -> None:
    """The instant was recorded by the first execution; another one does not start it over."""
    await lab.start(naps)
    await naps.options(id="n").start(3_600)
    await lab.until_asleep(3_000)
    (row,) = await lab.steps("n")
    lab.clock.leap(1_800)
    await lab.hand_back("n")
    await lab.until_asleep_for(1_000, 2_000)
    assert await lab.steps("n") == [row]
    lab.clock.leap(1_801)
    assert (await lab.until("n"))["status"] == "SUCCESS"


async def test_a_sleep_that_is_over_does_not_wait_at_a_replay(lab: Lab) -> None:
    """A finished sleeper goes through at once."""
    await lab.start(naps)
    await naps.options(id="n")(0.01)
    lab.clock.slept.clear()
    assert (await lab.rerun("n"))["status"] == "SUCCESS"
    assert [seconds for seconds in lab.clock.slept if seconds > 0] == []


async def test_asking_again_for_a_finished_sleeper_returns_at_once(lab: Lab) -> None:
    """A start under the id joins the finished workflow."""
    await lab.start(naps)
    assert await naps.options(id="n")(0.01) == "awake"
    assert await naps.options(id="n")(0.01) == "awake"
    assert len(await lab.steps("n")) == 1


async def test_the_instant_stays_when_the_database_is_away_while_it_is_written(
    lab: Lab,
) -> None:
    """A write that is tried again carries the instant of its first try."""
    await lab.start(naps)
    lab.store.fail("record", DatabaseUnavailable("away"), times=2)
    lab.store.fail("record", DatabaseUnavailable("cut"), after=True)
    await naps.options(id="n").start(3_600)
    await lab.until_asleep(3_000)
    tries = [items[0] for items in lab.store.batches("record")]
    assert len(tries) == 4
    assert len(set(tries)) == 1
    (row,) = await lab.steps("n")
    assert row["completed_at_epoch_ms"] == tries[0].completed_at_ms


async def test_a_rivals_instant_is_adopted(memory_lab: Lab) -> None:
    """Whoever recorded first decides how long it is."""
    lab = memory_lab

    @workflow(name="raced")
    async def raced() -> None:
        wake_s = (lab.engine.kernel.time.now_ms() + 7_200_000) / 1_000
        await lab.backdoor.run(
            "INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, output,"
            " serialization, completed_at_epoch_ms)"
            " VALUES ('w', 1, 'DBOS.sleep', ?, 'portable_json', 7)",
            json.dumps(wake_s),
        )
        await sleep(60)

    await lab.start(raced)
    await raced.options(id="w").start()
    await lab.until_asleep_for(7_100, 7_300)
    lab.clock.leap(7_200)
    assert (await lab.until("w"))["status"] == "SUCCESS"


async def test_outside_a_workflow_it_waits_plainly() -> None:
    """Nothing is needed and nothing recorded."""
    call = sleep(0.001)
    assert call.step_id is None
    await call


async def test_inside_a_step_it_waits_plainly(memory_lab: Lab) -> None:
    """A step is a leaf: its sleep takes no id."""

    @step(name="dozes")
    async def dozes() -> None:
        await sleep(0.001)

    @workflow(name="outer")
    async def outer() -> None:
        await dozes()
        await sleep(0.001)

    await memory_lab.start(outer)
    await outer.options(id="o")()
    assert await memory_lab.history("o") == [(1, "dozes"), (2, "DBOS.sleep")]


@pytest.mark.parametrize("nothing", [0, 0.0, timedelta()], ids=str)
async def test_a_sleep_of_zero_takes_no_id_and_leaves_no_row(memory_lab: Lab, nothing: Any) -> None:
    """As on the wire: the next call has the id it would have had."""

    async def look() -> None: ...

    @workflow(name="no_nap")
    async def no_nap() -> None:
        await sleep(nothing)
        await run_step("look", look)

    await memory_lab.start(no_nap)
    await no_nap.options(id="n")()
    assert await memory_lab.history("n") == [(1, "look")]


async def test_a_sleep_that_is_built_and_dropped_has_spent_its_id(memory_lab: Lab) -> None:
    """Source order numbers, whatever is awaited."""

    async def look() -> None: ...

    @workflow(name="drops")
    async def drops() -> None:
        sleep(1)
        await run_step("look", look)

    await memory_lab.start(drops)
    await drops.options(id="d")()
    assert await memory_lab.history("d") == [(2, "look")]


@pytest.mark.parametrize(
    "wrong",
    [-1, float("nan"), float("inf"), timedelta(seconds=-1), True, "5", None],
    ids=str,
)
async def test_what_is_no_duration_is_refused_before_anything_is_recorded(
    memory_lab: Lab, wrong: Any
) -> None:
    """At the call, with no id taken."""

    async def look() -> None: ...

    @workflow(name="wrong")
    async def wrongly() -> None:
        with pytest.raises(InvalidArgument, match="duration"):
            sleep(wrong)
        await run_step("look", look)

    await memory_lab.start(wrongly)
    await wrongly.options(id="w")()
    assert await memory_lab.history("w") == [(1, "look")]


@pytest.mark.parametrize("long", [1e12, timedelta.max, timedelta(days=3650)], ids=str)
async def test_very_long_sleeps_really_wait(memory_lab: Lab, long: Any) -> None:
    """No overflow: ten years, a trillion seconds and the longest timedelta are durations."""

    @workflow(name="ages")
    async def ages() -> None:
        await sleep(long)

    await memory_lab.start(ages)
    handle = await ages.start()
    await memory_lab.until_asleep(300_000_000)
    (row,) = await memory_lab.steps(handle.workflow_id)
    assert row["completed_at_epoch_ms"] > row["started_at_epoch_ms"] + 300_000_000_000


async def test_parts_add_up(memory_lab: Lab) -> None:
    """Days, hours, minutes and seconds may be given together; a negative part is refused."""

    @workflow(name="parts")
    async def parts() -> None:
        await sleep(1, days=1, hours=1, minutes=1, seconds=1)

    await memory_lab.start(parts)
    handle = await parts.start()
    await memory_lab.until_asleep(DAY)
    (row,) = await memory_lab.steps(handle.workflow_id)
    slept_ms = row["completed_at_epoch_ms"] - row["started_at_epoch_ms"]
    assert slept_ms == (1 + DAY + 3_600 + 60 + 1) * 1_000
    with pytest.raises(InvalidArgument):
        sleep(days=1, hours=-1)


async def test_a_shutdown_does_not_wait_for_a_sleeper(shared_lab: Lab) -> None:
    """What only waits is released at once, however long the grace; its attempt is given back."""
    engine = await shared_lab.start(naps, grace=3_600)
    await naps.options(id="n").start(DAY)
    await shared_lab.until_asleep(DAY - 1)
    await engine.stop()
    row = await shared_lab.status("n")
    assert (row["status"], row["recovery_attempts"]) == ("ENQUEUED", 0)
    await shared_lab.start(naps)
    await shared_lab.until_asleep(DAY - 60)
    shared_lab.clock.leap(DAY)
    row = await shared_lab.until("n")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 1)


async def test_a_cancelled_sleeper_stops_at_once(lab: Lab) -> None:
    """A sleep only waits, so a cancellation need not wait for it."""
    await lab.start(naps)
    handle = await naps.options(id="n").start(DAY)
    await lab.until_asleep(DAY - 1)
    await handle.cancel()
    await lab.until_nothing_runs()
    assert await lab.state("n") == "CANCELLED"
