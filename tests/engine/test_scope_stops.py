"""Scopes under signals, faults and exits: what ends a run is no verdict, nothing is left over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    Engine,
    current,
    gather,
    map,  # noqa: A004 - the field's name
    run_step,
    select,
    sleep,
    step,
    timeout,
    workflow,
)
from perdure.api.workflow import Workflow
from perdure.errors import DatabaseUnavailable, ForeignCancellation
from tests.support.engines import RELEASED_S, Lab
from tests.support.loops import run_apart
from tests.support.waiting import eventually
from tests.support.workflows import look

FOREVER = 1e6


class Pace:
    """A step that a test lets end, and what it saw."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.ends: list[str] = []

        @step(name="slow")
        async def slow() -> str:
            self.began.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.ends.append("cancelled")
                raise
            self.ends.append("done")
            return "slow"

        self.slow = slow


async def naps() -> None:
    """A branch that only waits."""
    await look()
    await sleep(FOREVER)


async def verdicts(lab: Lab, workflow_id: str) -> list[str]:
    """The names of the close rows."""
    return [name for _, name in await lab.history(workflow_id) if name.endswith(".close")]


@pytest.mark.parametrize("scope", ["gather", "select", "timeout", "map"])
async def test_a_cancelled_workflow_lets_a_step_of_a_branch_run_to_its_end(
    lab: Lab, scope: str
) -> None:
    """What only waits ends at once; a step that may not be stopped ends by itself."""
    pace = Pace()

    async def works() -> str:
        return await pace.slow()

    @workflow(name="branches")
    async def branches() -> Any:
        if scope == "gather":
            return await gather(works(), naps())
        if scope == "select":
            return await select(works(), sleep(FOREVER))
        if scope == "map":
            return await map(lambda work: work(), [works, naps, naps], concurrency=2)
        return await timeout(works(), FOREVER)

    await lab.start(branches)
    handle = await branches.options(id="w").start()
    await pace.began.wait()
    await handle.cancel()
    await asyncio.sleep(0.05)
    assert pace.ends == []
    pace.go.set()
    await lab.until_nothing_runs()
    assert pace.ends == ["done"]
    assert await lab.state("w") == "CANCELLED"
    assert await verdicts(lab, "w") == []


async def test_a_run_lost_in_the_middle_of_a_scope_records_no_verdict(lab: Lab) -> None:
    """The write of the verdict is fenced like any other."""
    pace = Pace()

    @workflow(name="races")
    async def races() -> None:
        await select(pace.slow(), sleep(FOREVER))

    await lab.start(races)
    await races.options(id="w").start()
    await pace.began.wait()
    await lab.cancel_elsewhere("w")
    pace.go.set()
    await lab.until_nothing_runs()
    assert await verdicts(lab, "w") == []


async def test_a_shutdown_gives_a_run_back_whose_branches_only_wait(lab: Lab) -> None:
    """Also where one of them has ended; nobody waits out the grace time."""

    @workflow(name="branches")
    async def branches() -> None:
        await gather(look_twice(), select(naps(), sleep(FOREVER)), timeout(naps(), FOREVER))

    async def look_twice() -> None:
        await look()
        await look()

    engine = await lab.start(branches, grace=60)
    await branches.options(id="w").start()

    async def all_wait() -> bool:
        return [name for _, name in await lab.history("w")].count("look") == 4

    await eventually(all_wait)
    await eventually(lambda: all(run.only_waits for run in engine.kernel.runner.runs.values()))
    if lab.kind == "memory":
        return
    async with asyncio.timeout(30):
        await engine.stop()
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("ENQUEUED", 0)
    assert await verdicts(lab, "w") == []


async def test_a_shutdown_without_grace_stops_branches_wherever_they_are(shared_lab: Lab) -> None:
    """Steps are cancelled, the attempt is given back, no branch has decided."""
    lab, pace = shared_lab, Pace()

    @workflow(name="branches")
    async def branches() -> None:
        await select(_works(pace), gather(naps(), naps()))

    engine = await lab.start(branches)
    await branches.options(id="w").start()
    await pace.began.wait()
    await engine.stop()
    assert pace.ends == ["cancelled"]
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("ENQUEUED", 0)
    assert await verdicts(lab, "w") == []


async def _works(pace: Pace) -> str:
    return await pace.slow()


async def test_a_deadline_ends_every_branch(lab: Lab) -> None:
    """As a cancellation does."""

    @workflow(name="branches")
    async def branches() -> None:
        await gather(naps(), timeout(naps(), FOREVER))

    await lab.start(branches)
    handle = await branches.options(id="w", timeout=3_600).start()
    await lab.until_asleep(FOREVER - 10)
    lab.clock.leap(3_700)
    assert (await lab.until("w"))["status"] == "CANCELLED"
    assert await verdicts(lab, "w") == []
    await lab.until_nothing_runs()
    with pytest.raises(Exception, match="cancelled"):
        await handle


@pytest.mark.usefixtures("long_release")
async def test_trouble_with_a_database_decides_nothing(lab: Lab) -> None:
    """The run is released and goes on later, on what it had recorded."""
    troubles = [DatabaseUnavailable("another database")]

    async def asks() -> str:
        return str(await run_step("ask", ask))

    async def ask() -> str:
        if troubles:
            raise troubles.pop()
        return "answered"

    @workflow(name="gathers")
    async def gathers() -> list[Any]:
        return await gather(asks(), look(), return_exceptions=True)

    await lab.start(gathers)
    handle = await gathers.options(id="w").start()
    with pytest.raises(DatabaseUnavailable):
        await handle
    assert await lab.state("w") == "DELAYED"
    lab.clock.leap(RELEASED_S)
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '["answered",null]'
    assert await verdicts(lab, "w") == []


def leaving(error: type[BaseException]) -> Workflow[[], Any]:
    """A workflow one of whose branches leaves by the error, once."""
    errors = [error]

    async def leaves() -> str:
        await look()
        if errors:
            raise errors.pop()
        return "went on"

    @workflow(name="exits")
    async def exits() -> Any:
        return (await select(leaves(), naps())).value

    return exits


@pytest.mark.usefixtures("long_release")
@pytest.mark.parametrize(
    ("error", "state", "attempts"),
    [(SystemExit, "DELAYED", 1), (KeyboardInterrupt, "ENQUEUED", 0)],
)
async def test_an_exit_in_a_branch_releases_the_run_and_reaches_its_owner(
    shared_lab: Lab, error: type[BaseException], state: str, attempts: int
) -> None:
    """As one in the body does; it is no verdict."""
    exits, lab = leaving(error), shared_lab

    async def program() -> None:
        async with Engine(lab.url, workflows=[exits], heartbeat=0.1, grace=30) as engine:
            # What it gives back it must not take again before it has ended.
            await engine.kernel._dispatcher.stop()  # noqa: SLF001 - nothing else claims
            await exits.options(id="w").start()
            await engine.handle("w")

    assert isinstance(await run_apart(program), error)
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == (state, attempts)
    assert await verdicts(lab, "w") == []


async def test_a_helper_task_that_drives_a_call_of_a_loser_is_no_fault(lab: Lab) -> None:
    """It is cancelled with the branch whose call it is, and the run goes on."""

    async def helped() -> None:
        await asyncio.gather(sleep(FOREVER), sleep(FOREVER), return_exceptions=True)

    async def quick() -> str:
        await run_step("wait", lambda: eventually(lambda: lab.clock.sleepers(FOREVER - 10)))
        return "quick"

    @workflow(name="races")
    async def races() -> str:
        first = await select(helped(), quick())
        await look()
        return str(first.value)

    await lab.start(races)
    assert await races.options(id="w")() == "quick"
    assert (await lab.rerun("w"))["status"] == "SUCCESS"


async def test_a_call_that_a_branch_leaves_to_a_helper_ends_with_its_scope(lab: Lab) -> None:
    """Nothing a branch began runs or is recorded once its scope has ended."""
    pace = Pace()
    helpers: list[asyncio.Future[Any]] = []

    async def leaves() -> str:
        helpers.append(asyncio.ensure_future(pace.slow()))
        await pace.began.wait()
        return "left"

    @workflow(name="gathers")
    async def gathers() -> list[str]:
        found = await gather(leaves(), leaves())
        assert all(helper.done() for helper in helpers)
        await look()
        return found

    await lab.start(gathers)
    assert await gathers.options(id="w")() == ["left", "left"]
    assert pace.ends == ["cancelled", "cancelled"]
    assert [name for _, name in await lab.history("w")] == ["look"]


async def test_a_loser_that_swallows_its_end_can_do_nothing_more(lab: Lab) -> None:
    """Its calls are neither built nor begun; it is awaited all the same."""
    effects: list[str] = []

    async def stubborn() -> None:
        built = run_step("built", lambda: effects.append("built"))
        scope = gather(naps(), naps())
        for again in (sleep(FOREVER), scope, built, None):
            try:
                await (again or look())
            except BaseException as error:  # noqa: BLE001 - it is stubborn
                effects.append(type(error).__name__)

    async def quick() -> str:
        await eventually(lambda: lab.clock.sleepers(FOREVER - 10))
        return "quick"

    @workflow(name="races")
    async def races() -> str:
        return str((await select(stubborn(), quick())).value)

    await lab.start(races)
    assert await races.options(id="w")() == "quick"
    assert effects == ["CancelledError"] * 4
    names = [name for _, name in await lab.history("w")]
    assert names.count("DBOS.sleep") == 1
    assert not {"built", "look", "Perdure.gather"} & set(names)


async def test_a_losers_step_in_a_thread_is_told_and_left_to_itself(lab: Lab) -> None:
    """Its cancellation token fires, its result is nobody's."""
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    told: list[bool] = []

    @step(name="threaded")
    def threaded() -> str:
        token = current().cancellation
        loop.call_soon_threadsafe(began.set)
        told.append(token.wait(30))
        return "late"

    async def quick() -> str:
        await began.wait()
        return "quick"

    @workflow(name="races")
    async def races() -> str:
        return str((await select(threaded(), quick())).value)

    await lab.start(races)
    assert await races.options(id="w")() == "quick"
    await eventually(lambda: told == [True])
    assert "threaded" not in [name for _, name in await lab.history("w")]


@pytest.mark.usefixtures("long_release")
async def test_a_foreign_cancellation_in_a_branch_is_a_fault(memory_lab: Lab) -> None:
    """Its decision is not recorded; the message names the durable way."""

    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.01):
                await sleep(FOREVER)
        except TimeoutError:
            await look()
        return "never"

    @workflow(name="gathers")
    async def gathers() -> list[str]:
        return await gather(impatient(), impatient())

    await memory_lab.start(gathers)
    handle = await gathers.options(id="w").start()
    with pytest.raises(ForeignCancellation, match=r"perdure\.timeout"):
        await handle
    assert await memory_lab.state("w") == "DELAYED"
    assert "look" not in [name for _, name in await memory_lab.history("w")]


async def test_a_loser_s_write_is_withdrawn_or_awaited(lab: Lab) -> None:
    """Before the verdict is written, what was sent is known; what was not is not sent."""
    lost = asyncio.Event()

    async def writes() -> None:
        await look()

    async def quick() -> str:
        await gate.reached()
        lost.set()
        return "quick"

    @workflow(name="races")
    async def races() -> str:
        return str((await select(writes(), quick())).value)

    await lab.start(races)
    gate = lab.store.hold("record")
    handle = await races.options(id="w").start()
    await lost.wait()
    await asyncio.sleep(0.05)
    assert await verdicts(lab, "w") == []
    gate.open()
    assert await handle == "quick"
    rows = await lab.history("w")
    assert rows == [(1, "Perdure.select"), (2, "Perdure.select.close"), (3, "look")]


async def test_thousands_of_branches_stay_bounded(memory_lab: Lab) -> None:
    """Only as many at a time as asked; each has its record, and a replay does nothing again."""
    done: list[int] = []

    @step(name="one")
    async def one(number: int) -> int:
        done.append(number)
        return number

    async def twice(number: int) -> int:
        return await one(number) + await one(number)

    @workflow(name="fans_out")
    async def fans_out() -> int:
        return sum(await map(twice, range(1_000), concurrency=50))

    await memory_lab.start(fans_out)
    assert await fans_out.options(id="w")() == sum(range(1_000)) * 2
    assert len(done) == 2_000
    assert len(await memory_lab.history("w")) == 2_001
    done.clear()
    assert (await memory_lab.rerun("w"))["status"] == "SUCCESS"
    assert done == []
