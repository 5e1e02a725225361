"""What a replay does: it reads what is recorded, runs what is not, and says when code differs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from perdure import UnexpectedStep, WorkflowState, gather, run_step, sleep, step, workflow
from perdure.errors import DatabaseConflict, DatabaseUnavailable, UnserializableValue
from tests.support.engines import Lab
from tests.support.workflows import child, look


class Effects:
    """Steps that note that they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @step(name="effect")
        async def effect(word: str) -> str:
            self.ran.append(word)
            if word == "fail":
                raise ValueError("as asked")
            return word.upper()

        self.effect = effect


@pytest.fixture
def effects() -> Effects:
    return Effects()


async def test_recorded_steps_do_not_run_again_and_keep_order_and_results(
    lab: Lab, effects: Effects
) -> None:
    """A second execution of a finished workflow only reads."""

    @workflow(name="several")
    async def several() -> list[str]:
        return [await effects.effect(word) for word in ("a", "b", "c")]

    await lab.start(several)
    first = await several.options(id="w")()
    before = await lab.steps("w")
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert json.loads(await lab.output("w") or "") == first == ["A", "B", "C"]
    assert effects.ran == ["a", "b", "c"]
    assert await lab.steps("w") == before


async def test_a_recovered_run_goes_on_after_its_last_record(lab: Lab, effects: Effects) -> None:
    """What was in flight runs again, what was recorded does not."""
    begun, gate = asyncio.Event(), asyncio.Event()

    @step(name="stuck")
    async def stuck() -> str:
        effects.ran.append("stuck")
        begun.set()
        await gate.wait()
        return "moved"

    @workflow(name="mixed")
    async def mixed() -> list[str]:
        return [await effects.effect("a"), await stuck(), await effects.effect("b")]

    await lab.start(mixed)
    await mixed.options(id="w").start()
    await begun.wait()
    await lab.hand_back("w")
    await lab.until_attempts("w", 2)
    gate.set()
    assert (await lab.until("w"))["status"] == "SUCCESS"
    assert effects.ran == ["a", "stuck", "stuck", "b"]


async def test_a_caught_failure_replays_the_same_and_does_not_run(
    lab: Lab, effects: Effects
) -> None:
    """A step that failed stays failed, and shows as such."""

    @workflow(name="catches")
    async def catches() -> str:
        try:
            return await effects.effect("fail")
        except ValueError as error:
            return f"caught {error}"

    engine = await lab.start(catches)
    assert await catches.options(id="w")() == "caught as asked"
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '"caught as asked"'
    assert effects.ran == ["fail"]
    (row,) = await engine.workflows.steps("w")
    assert (row.name, row.output) == ("effect", None)
    assert row.error is not None
    assert row.started_at_ms is not None


async def test_a_body_left_by_what_is_no_outcome_runs_again_and_ends(
    lab: Lab, effects: Effects
) -> None:
    """Nothing is recorded for the run; with the fault gone it goes on where it stopped."""
    broken = True

    class Crash(BaseException):
        pass

    @workflow(name="crashes")
    async def crashes() -> str:
        word = await effects.effect("a")
        if broken:
            raise Crash
        return word

    await lab.start(crashes)
    # However slow the machine, it is not tried again before it is mended.
    retry = lab.store.hold("sweep")
    handle = await crashes.options(id="w").start()
    with pytest.raises(Crash):
        await handle
    row = await lab.status("w")
    assert (row["status"], row["recovery_attempts"], row["owner_xid"]) == ("DELAYED", 1, None)
    broken = False
    lab.clock.leap(5)
    retry.open()
    row = await lab.until("w", WorkflowState.SUCCESS)
    assert (row["recovery_attempts"], await lab.output("w")) == (2, '"A"')
    assert effects.ran == ["a"]


async def test_the_released_run_waits_longer_each_time(memory_lab: Lab) -> None:
    """Back-off by attempts: one second, two, four."""

    class Crash(BaseException):
        pass

    @workflow(name="crashes")
    async def crashes() -> None:
        raise Crash

    await memory_lab.start(crashes)
    # However slow the machine, each is looked at before the next.
    retry = memory_lab.store.hold("sweep")
    await crashes.options(id="w").start()
    waits = []
    for attempt in (1, 2, 3):
        await memory_lab.until_attempts("w", attempt)
        row = await memory_lab.until("w", WorkflowState.DELAYED)
        waits.append(round((row["delay_until_epoch_ms"] - row["updated_at"]) / 1000))
        this, retry = retry, memory_lab.store.hold("sweep")
        memory_lab.clock.leap(5)
        this.open()
    assert waits == [1, 2, 4]


@pytest.mark.parametrize("operation", ["step", "sleep", "child"])
async def test_a_renamed_operation_is_an_unexpected_step_naming_both_and_neighbours(
    lab: Lab, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The run is tried again later, with its attempt counted; nothing of it is recorded."""
    raised: list[UnexpectedStep] = []
    calls: dict[str, Any] = {
        "step": look,
        "sleep": lambda: sleep(0.001),
        "child": lambda: child("x"),
    }

    @workflow(name="changes")
    async def changes() -> str:
        await run_step("before", look.fn)
        try:
            await calls[operation]()
        except UnexpectedStep as error:
            raised.append(error)
            raise
        await run_step("after", look.fn)
        return "done"

    await lab.start(changes, child)
    await changes.options(id="w")()
    await lab.rename_step("w", 2, "renamed")
    row = await lab.rerun("w")
    assert (row["status"], row["recovery_attempts"]) == ("DELAYED", 2)
    assert (await lab.output("w"), await lab.error("w")) == (None, None)
    name = {"step": "look", "sleep": "DBOS.sleep", "child": "child"}[operation]
    message = str(raised[0])
    assert (raised[0].workflow_id, raised[0].step_id) == ("w", 2)
    assert f"at step 2 the code calls {name!r} but recorded is 'renamed'" in message
    assert "1: 'before'" in message
    assert "→ 2: 'renamed'" in message
    assert ("3: 'after'" if operation != "child" else "3: 'DBOS.getResult'") in message
    assert "could not go on at attempt 2" in caplog.text


async def test_an_unexpected_step_that_is_swallowed_stays(lab: Lab, effects: Effects) -> None:
    """Every later durable call raises it again, and the body's result is not recorded."""
    raised: list[type] = []

    @workflow(name="swallows")
    async def swallows() -> str:
        for word in ("a", "b", "c"):
            try:
                await effects.effect(word)
            except Exception as error:  # noqa: BLE001 - the test is about swallowing
                raised.append(type(error))
        return "done"

    await lab.start(swallows)
    await swallows.options(id="w")()
    await lab.rename_step("w", 1, "renamed")
    assert (await lab.rerun("w"))["status"] == "DELAYED"
    assert raised == [UnexpectedStep] * 3
    assert (await lab.output("w"), effects.ran) == (None, ["a", "b", "c"])


async def test_fixed_code_finishes_a_run_that_met_an_unexpected_step(lab: Lab) -> None:
    """The history was not touched, so the right code goes on."""
    switched = True

    @workflow(name="fixed")
    async def fixed() -> str:
        await run_step("other" if switched else "right", look.fn)
        return "done"

    await lab.start(fixed)
    switched = False
    await fixed.options(id="w")()
    switched = True
    # However slow the machine, it is not tried again before it is mended.
    retry = lab.store.hold("sweep")
    assert (await lab.rerun("w"))["status"] == "DELAYED"
    switched = False
    lab.clock.leap(60)
    retry.open()
    assert (await lab.until("w", WorkflowState.SUCCESS))["recovery_attempts"] == 3


async def test_a_step_skipped_by_a_warm_process_is_found(lab: Lab, effects: Effects) -> None:
    """A global that decides which steps run is no reason to feed one with another's record."""
    cache: list[str] = []

    @step(name="second")
    async def second(word: str) -> str:
        return f"second {word}"

    @workflow(name="cached")
    async def cached() -> str:
        if not cache:
            cache.append(await effects.effect("warm"))
        return await second(cache[0])

    await lab.start(cached)
    assert await cached.options(id="w")() == "second WARM"
    assert (await lab.rerun("w"))["status"] == "DELAYED"
    assert await lab.output("w") is None


@pytest.mark.parametrize("trouble", [DatabaseUnavailable, DatabaseConflict])
@pytest.mark.parametrize("after", [False, True], ids=["lost", "answer lost"])
async def test_trouble_while_recording_moves_no_counter_and_repeats_no_effect(
    lab: Lab, effects: Effects, trouble: type[Exception], after: bool
) -> None:
    """The write is repeated as it was, whether or not the first try got through."""

    @workflow(name="writes")
    async def writes() -> str:
        await effects.effect("a")
        await sleep(0.001)
        await child("x")
        return await effects.effect("b")

    await lab.start(writes, child)
    for method in ("start", "record", "finish"):
        lab.store.fail(method, trouble("cut"), times=2, after=after)
    assert await writes.options(id="w")() == "B"
    assert await lab.history("w") == [
        (1, "effect"),
        (2, "DBOS.sleep"),
        (3, "child"),
        (4, "DBOS.getResult"),
        (5, "effect"),
    ]
    assert effects.ran == ["a", "b"]
    assert ((await lab.status("w"))["recovery_attempts"], await lab.count()) == (1, 2)
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert effects.ran == ["a", "b"]


async def test_concurrent_steps_replay_one_by_one_from_whatever_was_recorded(
    lab: Lab, effects: Effects
) -> None:
    """Of a gather cut in the middle only the missing calls run."""

    @workflow(name="fans_out")
    async def fans_out() -> list[str]:
        return await gather(*(effects.effect(word) for word in "abcd"))

    await lab.start(fans_out)
    await fans_out.options(id="w")()
    await lab.backdoor.run("DELETE FROM operation_outputs WHERE function_id IN (2, 4)")
    effects.ran.clear()
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert await lab.output("w") == '["A","B","C","D"]'
    assert effects.ran == ["b", "d"]


async def test_a_record_that_cannot_be_read_here_is_no_outcome(lab: Lab, effects: Effects) -> None:
    """A fixed deployment may read it: the run is released, the record kept."""

    @workflow(name="reads")
    async def reads() -> str:
        return await effects.effect("a")

    await lab.start(reads)
    await reads.options(id="w")()
    await lab.backdoor.run("UPDATE operation_outputs SET output = '{\"no\": 1}'")
    assert (await lab.rerun("w"))["status"] == "DELAYED"
    assert (await lab.output("w"), await lab.error("w")) == (None, None)
    assert len(await lab.steps("w")) == 1


async def test_a_rivals_record_of_the_same_step_is_adopted(lab: Lab, effects: Effects) -> None:
    """Whoever recorded first decides; the body goes on with that value."""

    @step(name="raced")
    async def raced() -> str:
        await lab.backdoor.run(
            "INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, output,"
            " serialization, completed_at_epoch_ms)"
            " VALUES ('w', 1, 'raced', '\"rival\"', 'portable_json', 7)"
        )
        return "mine"

    @workflow(name="races")
    async def races() -> str:
        return await raced()

    await lab.start(races)
    assert await races.options(id="w")() == "rival"
    assert len(await lab.steps("w")) == 1


async def test_values_come_back_decoded_also_on_the_first_run(lab: Lab) -> None:
    """First run and replay see the same values of the same types."""
    seen: list[list[str]] = []

    @step(name="untyped")
    async def untyped() -> Any:
        return {"pair": (1, 2), "deep": {"more": ["x"]}}

    @step(name="typed")
    async def typed() -> tuple[set[int], bytes]:
        return {1}, b"raw"

    @workflow(name="looks")
    async def looks(word: Any) -> None:
        one, two = await untyped(), await typed()
        seen.append([repr(word), repr(one), repr(two)])

    await lab.start(looks)
    await looks.options(id="w")([1, {"a": None}])
    await lab.rerun("w")
    assert seen[0] == seen[1]
    assert seen[0] == [
        "[1, {'a': None}]",
        "{'pair': [1, 2], 'deep': {'more': ['x']}}",
        "({1}, b'raw')",
    ]


async def test_a_deeply_nested_value_survives(lab: Lab) -> None:
    """As argument, step result and workflow result, on the first run and on a replay."""
    deep: Any = ["bottom"]
    for level in range(80):
        deep = {"level": level, "inner": [deep]}

    async def same(value: Any) -> Any:
        return value

    @workflow(name="digs")
    async def digs(value: Any) -> Any:
        return await run_step("same", same, value)

    await lab.start(digs)
    assert await digs.options(id="w")(deep) == deep
    await lab.rerun("w")
    assert await lab.engine.handle("w") == deep


async def test_a_failure_looks_the_same_on_the_first_run_and_on_a_replay(lab: Lab) -> None:
    """Its class, fields, notes and cause, so that no body can decide otherwise by them."""
    seen: list[list[str]] = []

    @step(name="fails")
    async def fails() -> None:
        try:
            {}["deeper"]
        except KeyError as error:
            failure = ValueError("outer", 7)
            failure.add_note("noted")
            raise failure from error

    @workflow(name="looks")
    async def looks() -> None:
        try:
            await fails()
        except ValueError as error:
            notes = getattr(error, "__notes__", [])
            seen.append([repr(error), str(notes), type(error.__cause__).__name__])

    await lab.start(looks)
    await looks.options(id="w")()
    await lab.rerun("w")
    assert seen[0] == seen[1]
    assert seen[0][0] == "ValueError('outer', 7)"


async def test_results_that_cannot_be_stored_are_failures_with_their_path(lab: Lab) -> None:
    """Of a step and of a workflow: recorded ERROR, naming where the value is."""

    @step(name="unstorable")
    async def unstorable() -> Any:
        return {"inner": [1, object()]}

    @workflow(name="tries")
    async def tries() -> Any:
        with pytest.raises(UnserializableValue, match=r"\$\.inner\[1\]"):
            await unstorable()
        return {"socket": object()}

    await lab.start(tries)
    with pytest.raises(UnserializableValue, match=r"cannot store \$\.socket"):
        await tries.options(id="w")()
    assert await lab.state("w") == "ERROR"
    assert (await lab.error("w") or {})["name"] == "UnserializableValue"
    (row,) = await lab.steps("w")
    assert json.loads(row["error"])["name"] == "UnserializableValue"
