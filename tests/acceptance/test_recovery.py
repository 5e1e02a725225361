"""What a dead process leaves is taken up by another: where it stopped, once, and by itself."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from perdure import Engine, WorkflowState, sleep, step, workflow
from perdure.errors import WaitInterrupted
from perdure.model.ids import BootId
from perdure.model.lease import LeaseSeen, LockState
from tests.support.deaths import crash
from tests.support.engines import Lab
from tests.support.waiting import eventually

DAY = 86_400

ran: Counter[str] = Counter()
gates: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()
    gates.clear()


@step(name="mark")
async def mark(word: str) -> str:
    ran[word] += 1
    return word.upper()


@step(name="gated")
async def gated(word: str) -> str:
    ran[word] += 1
    await gates[word].wait()
    return word.upper()


@workflow(name="three")
async def three(word: str) -> list[str]:
    return [await mark(f"{word} 1"), await gated(f"{word} 2"), await mark(f"{word} 3")]


@workflow(name="brief")
async def brief(word: str) -> str:
    await sleep(DAY)
    return await mark(word)


def shut(*words: str) -> None:
    for word in words:
        gates[word] = asyncio.Event()


async def test_a_dead_process_s_run_goes_on_after_its_last_recorded_step(shared_lab: Lab) -> None:
    """Recorded steps are not run again; the one in flight is; the row went through the queue."""
    lab = shared_lab
    shut("w 2")
    engine = await lab.start(three)
    handle = await three.options(id="w").start("w")
    waiting = asyncio.ensure_future(handle.result())
    await eventually(lambda: ran["w 2"])
    await crash(engine)
    with pytest.raises(WaitInterrupted, match="'w' has no outcome yet"):
        await waiting
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"], row["queue_name"]) == ("PENDING", 1, None)
    gates["w 2"].set()
    successor = await lab.start(three)
    assert await successor.handle("w", three) == ["W 1", "W 2", "W 3"]
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("SUCCESS", 2)
    assert row["queue_name"] == "_perdure_internal_queue"
    assert row["executor_id"] == successor.executor_id
    assert row["creator_xid"] is not None
    assert ran == {"w 1": 1, "w 2": 2, "w 3": 1}
    assert [row["function_id"] for row in await lab.steps("w")] == [1, 2, 3]


async def test_a_living_process_takes_up_what_another_left(shared_lab: Lab) -> None:
    """No restart is needed, nor anybody's command."""
    lab = shared_lab
    shut("w 2")
    doomed = await lab.start(three)
    survivor = await lab.start(three)
    await three.options(id="w", engine=doomed).start("w")
    await eventually(lambda: ran["w 2"])
    await crash(doomed)
    gates["w 2"].set()
    assert await survivor.handle("w", three) == ["W 1", "W 2", "W 3"]
    assert (await lab.status("w"))["recovery_attempts"] == 2
    leases = await lab.rows(f"SELECT boot_id FROM {lease_table(lab)}")
    assert [row["boot_id"] for row in leases] == [str(survivor.executor_id).rpartition("/")[2]]


def lease_table(lab: Lab) -> str:
    return "leases" if lab.kind == "postgres" else "perdure_leases"


async def test_an_unregistered_workflow_is_left_alone_and_others_go_on(shared_lab: Lab) -> None:
    """Its attempts are not used up; a process that has its code takes it, whenever it comes."""
    lab = shared_lab
    engine = await lab.start(brief, three)
    shut("t 2")
    await three.options(id="t").start("t")
    await brief.options(id="b").start("b")
    await lab.until_asleep(DAY - 1)
    await eventually(lambda: ran["t 2"])
    await crash(engine)
    gates["t 2"].set()
    other = await lab.start(three)
    assert await other.handle("t", three) == ["T 1", "T 2", "T 3"]
    row = await lab.until("b", WorkflowState.ENQUEUED)
    assert (row["recovery_attempts"], row["owner_xid"]) == (1, None)
    assert row["queue_name"] == "_perdure_internal_queue"
    await lab.start(brief)
    await lab.until_attempts("b", 2)
    lab.clock.leap(DAY)
    assert (await lab.until("b"))["status"] == "SUCCESS"


async def taken_for_dead(lab: Lab, engine: Engine, judge: Engine) -> None:
    """Let the judge take the engine's runs although it lives."""
    boot = BootId(str(engine.executor_id).rpartition("/")[2])
    executor = engine.executor_id
    assert executor is not None

    async def taken() -> bool:
        lease = await lab.rows(f"SELECT renewals FROM {lease_table(lab)} WHERE boot_id = ?", boot)
        renewals = lease[0]["renewals"] if lease else -1
        suspect = LeaseSeen(boot, executor, renewals, overdue=True, lock=LockState.FREE)
        return not (await judge.kernel.store.take_over(suspect, 100)).refused

    await eventually(taken)


async def test_the_loser_of_a_race_returns_the_winner_s_outcome(shared_lab: Lab) -> None:
    """Both bodies ran; the row is the winner's, and the loser records nothing."""
    lab = shared_lab
    answers = {"loser": "loser", "winner": "winner"}
    held = asyncio.Event()

    @step(name="decide")
    async def decide() -> str:
        ran["decide"] += 1
        if ran["decide"] == 1:
            await held.wait()
            return answers["loser"]
        return answers["winner"]

    @workflow(name="decides")
    async def decides() -> str:
        ran["body"] += 1
        return await decide()

    slow = await lab.start(decides, version="v1")
    fast = await lab.start(decides, version="v2")
    handle = await decides.options(id="w", engine=slow).start()
    waiting = asyncio.ensure_future(handle.result())
    await eventually(lambda: ran["decide"] == 1)
    await lab.backdoor.run("UPDATE workflow_status SET application_version = 'v2'")
    await taken_for_dead(lab, slow, fast)
    assert await fast.handle("w", decides) == "winner"
    before = await lab.status("w"), await lab.steps("w")
    held.set()
    assert await waiting == "winner"
    await eventually(lambda: not slow.kernel.runner.runs)
    assert (await lab.status("w"), await lab.steps("w")) == before
    assert (await lab.status("w"))["executor_id"] == fast.executor_id
    assert ran == {"body": 2, "decide": 2}


async def test_a_process_taken_for_dead_goes_on_under_a_new_identity(lab: Lab) -> None:
    """Its runs are claimed again, here or elsewhere, and it can start new ones at once."""
    shut("w 2")
    engine = await lab.start(three)
    before = engine.executor_id
    handle = await three.options(id="w").start("w")
    await eventually(lambda: ran["w 2"])
    await taken_for_dead(lab, engine, engine)
    gates["w 2"].set()
    assert await handle == ["W 1", "W 2", "W 3"]
    row = await lab.status("w")
    assert row["recovery_attempts"] == 2
    assert row["executor_id"] == engine.executor_id != before
    assert ran == {"w 1": 1, "w 2": 2, "w 3": 1}
    shut("x 2")
    gates["x 2"].set()
    assert await three.options(id="x")("x") == ["X 1", "X 2", "X 3"]
    assert (await lab.status("x"))["executor_id"] == engine.executor_id


async def test_a_start_that_meets_the_loss_of_its_lease_waits_for_the_next(lab: Lab) -> None:
    """The row is written once, in the name of the new boot."""
    engine = await lab.start(brief)
    before = engine.executor_id
    await taken_for_dead(lab, engine, engine)
    await brief.options(id="w").start("w")
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"]) == ("PENDING", 1)
    assert row["executor_id"] == engine.executor_id != before


async def test_one_stale_verdict_applied_twice_moves_a_run_once(shared_lab: Lab) -> None:
    """Whoever comes second changes nothing: the run's new owner keeps it."""
    lab = shared_lab
    shut("w 2")
    dead = await lab.start(three)
    executor = dead.executor_id
    assert executor is not None
    await three.options(id="w").start("w")
    await eventually(lambda: ran["w 2"])
    boot = BootId(executor.rpartition("/")[2])
    lease = await lab.rows(f"SELECT renewals FROM {lease_table(lab)} WHERE boot_id = ?", boot)
    await crash(dead)
    engine = await lab.start(three)
    await lab.until_attempts("w", 2)
    await eventually(lambda: ran["w 2"] == 2)
    owner = (await lab.status("w"))["owner_xid"]
    renewals = lease[0]["renewals"]
    stale = LeaseSeen(boot, executor, renewals, overdue=True, lock=LockState.FREE)
    takeovers = [await engine.kernel.store.take_over(stale, 100) for _ in range(2)]
    assert [each.moved for each in takeovers] == [0, 0]
    assert (await lab.status("w"))["owner_xid"] == owner
    gates["w 2"].set()
    assert await engine.handle("w", three) == ["W 1", "W 2", "W 3"]
    assert ran["w 3"] == 1


async def test_two_judges_of_one_dead_process_take_each_run_once(shared_lab: Lab) -> None:
    lab = shared_lab
    ids = [f"w{number}" for number in range(20)]
    shut(*(f"{each} 2" for each in ids))
    dead = await lab.start(three)
    for each in ids:
        await three.options(id=each).start(each)
    await eventually(lambda: len(ran) == 40)
    await crash(dead)
    for gate in gates.values():
        gate.set()
    engines = [await lab.start(three) for _ in range(2)]
    handles = [engines[number % 2].handle(each, three) for number, each in enumerate(ids)]
    results = await asyncio.gather(*handles)
    assert results == [[f"{each.upper()} {n}" for n in (1, 2, 3)] for each in ids]
    rows = await lab.rows("SELECT DISTINCT recovery_attempts AS n FROM workflow_status")
    assert [row["n"] for row in rows] == [2]
    assert {ran[f"{each} {n}"] for each in ids for n in (1, 3)} == {1}
    assert {ran[f"{each} 2"] for each in ids} == {2}


async def test_the_many_runs_of_a_dead_process_are_taken_up_in_batches(shared_lab: Lab) -> None:
    """More than a takeover or a claim takes at once, shared by two processes, each once."""
    lab, many = shared_lab, 1_200

    @workflow(name="counts")
    async def counts(number: int) -> int:
        ran["counts"] += 1
        return number

    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many})"
    await lab.backdoor.run(
        f"{numbers} INSERT INTO workflow_status (workflow_uuid, status, name, serialization,"
        " recovery_attempts, owner_xid, executor_id, application_name, application_version)"
        " SELECT 'w' || i, 'PENDING', 'counts', 'portable_json', 1, 'nobody',"
        " 'local/boot-gone', 'app', 'app@default' FROM n"
    )
    await lab.backdoor.run(
        f"{numbers} INSERT INTO workflow_input (workflow_uuid, inputs, retention_timestamp)"
        " SELECT 'w' || i, '{\"positionalArgs\": [' || i || ']}', 1 FROM n"
    )
    engines = [await lab.start(counts) for _ in range(2)]
    last = engines[0].handle(f"w{many}", counts)

    async def all_over() -> bool:
        found = await lab.rows(
            "SELECT count(*) AS n FROM workflow_status"
            " WHERE status = 'SUCCESS' AND recovery_attempts = 2 AND owner_xid IS NULL"
        )
        return bool(found[0]["n"] == many)

    await eventually(all_over)
    assert await last == many
    assert ran["counts"] == many


async def test_rows_go_on_in_a_process_of_their_version(shared_lab: Lab) -> None:
    """Rows of a version wait for it; those of none go to the latest that was registered."""
    lab = shared_lab

    @workflow(name="counts")
    async def counts(number: int) -> int:
        ran["counts"] += 1
        return number

    old = await lab.start(counts, version="v1")
    lab.clock.leap(1)
    new = await lab.start(counts, version="v2")
    for number in range(12):
        await counts.options(id=f"w{number}", engine=old)(number)
    ran.clear()
    versions = {"v1": old, "v2": new, None: new}
    expected = {}
    for number in range(12):
        version = ("v1", "v2", None)[number % 3]
        expected[f"w{number}"] = versions[version].executor_id
        await lab.backdoor.run(
            "UPDATE workflow_status SET application_version = ? WHERE workflow_uuid = ?",
            version,
            f"w{number}",
        )
    for workflow_id in expected:
        await lab.hand_back(workflow_id)
    for workflow_id, executor_id in expected.items():
        row = await lab.until(workflow_id)
        assert (row["executor_id"], row["recovery_attempts"]) == (executor_id, 2)
    assert ran["counts"] == 12
