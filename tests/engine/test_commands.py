"""Commands about workflows: what they return, and what they record in the body of a workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import (
    Client,
    InvalidArgument,
    LastStep,
    NoForkPoint,
    Queue,
    UnknownQueue,
    UnknownVersion,
    WorkflowBusy,
    WorkflowNotEnded,
    WorkflowNotFound,
    sleep,
    step,
    workflow,
    workflows,
)
from perdure.api.management import Workflows
from perdure.errors import DatabaseUnavailable, NotRunning, WrongPlace
from tests.support.engines import Lab, handles, names
from tests.support.workflows import child, look

Use = Callable[[Workflows], Awaitable[Any]]


@workflow(name="day")
async def day() -> None:
    """Sleep for a day."""
    await sleep(86_400)


@workflow(name="pair")
async def pair(word: str) -> list[str]:
    """Two children's results."""
    return [await child(f"{word}{number}") for number in range(2)]


COMMANDS: dict[str, tuple[Use, Any]] = {
    "DBOS.cancelWorkflow": (lambda on: on.cancel(["none", "day"]), ["day"]),
    "DBOS.setWorkflowDelay": (lambda on: on.set_delay(["day", "later"], 7_200), ["later"]),
    "DBOS.updateWorkflowAttributes": (lambda on: on.set_attributes("day", {"a": 1}), None),
    "DBOS.deleteWorkflow": (lambda on: on.delete(["pair", "day"]), ["pair", "day"]),
    "DBOS.resumeWorkflow": (lambda on: on.resume("day"), ["day"]),
    "DBOS.forkWorkflow": (lambda on: on.fork("pair", 3, id="copy"), "copy"),
    "DBOS.rewindWorkflow": (lambda on: on.rewind("pair", 3), "pair"),
}
"""By the name of its step: a command and what it returns, handles as the ids they refer to."""


def told(result: Any) -> Any:
    """A result that a body can return."""
    if isinstance(result, list) and result and not isinstance(result[0], str):
        return handles(*result)
    return getattr(result, "workflow_id", result)


async def peopled(lab: Lab, *more: Any) -> None:
    """An engine with one workflow that runs, one that has ended and one that is delayed."""
    queues = [Queue("line"), Queue("parts", partitioned=True)]
    engine = await lab.start(day, pair, child, *more, queues=queues)
    await day.options(id="day").start()
    await pair.options(id="pair")("x")
    await day.options(id="later", queue="line", delay=3_600).start()
    await lab.until_asleep(80_000)
    assert engine.is_running


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_command_in_a_body_is_a_step_that_is_not_given_again(lab: Lab, name: str) -> None:
    """It takes its id when it is built, and its record is written with what it does."""
    use, expected = COMMANDS[name]
    replays: list[str] = []

    @workflow(name="boss")
    async def boss() -> Any:
        await look()
        call = use(workflows())
        second = look()
        result = told(await call)
        replays.append(name)
        await second
        return result

    await peopled(lab, boss)
    assert await boss.options(id="boss")() == expected
    assert names(await lab.history("boss")) == ["look", name, "look"]
    lab.store.forget()
    await lab.rerun("boss")
    assert lab.store.counts["manage"] == 0
    assert (len(replays), await lab.engine.handle("boss").result()) == (2, expected)


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_command_outside_of_a_body_is_recorded_nowhere(memory_lab: Lab, name: str) -> None:
    """Neither by the program nor inside a step, which is done again as a whole."""
    use, expected = COMMANDS[name]

    @step(name="orders")
    async def orders() -> Any:
        return told(await use(workflows()))

    @workflow(name="boss")
    async def boss() -> Any:
        return await orders()

    await peopled(memory_lab, boss)
    assert await boss.options(id="boss")() == expected
    assert names(await memory_lab.history("boss")) == ["orders"]
    if name in {"DBOS.cancelWorkflow", "DBOS.updateWorkflowAttributes"}:
        assert told(await use(memory_lab.engine.workflows)) == expected


async def test_a_client_gives_commands_that_are_never_steps(shared_lab: Lab) -> None:
    """Also in a body: the database may be another one."""

    @workflow(name="boss")
    async def boss() -> Any:
        async with Client(shared_lab.url) as client:
            return await client.workflows.cancel("day")

    await peopled(shared_lab, boss)
    assert await boss.options(id="boss")() == ["day"]
    assert await shared_lab.history("boss") == []
    async with Client(shared_lab.url) as client:
        (resumed,) = await client.workflows.resume("day", queue="line")
        assert (await resumed.status()).queue_name == "line"
        assert await client.workflows.cancel(["later", "day"]) == ["later", "day"]
        forked = await client.workflows.fork("pair", "child")
        assert await asyncio.wait_for(forked.result(), 20) == ["X0", "X1"]
        await client.workflows.cancel("day")
        with pytest.raises(Exception, match="cancelled"):
            await asyncio.wait_for(resumed.result(), 20)


REFUSALS: list[tuple[type[Exception], Use]] = [
    (WorkflowNotFound, lambda on: on.resume(["day", "none"])),
    (WorkflowNotFound, lambda on: on.set_attributes("none", None)),
    (WorkflowNotFound, lambda on: on.fork("none")),
    (WorkflowNotFound, lambda on: on.rewind("none")),
    (WorkflowNotEnded, lambda on: on.rewind("day")),
    (NoForkPoint, lambda on: on.fork("pair", "no step")),
    (NoForkPoint, lambda on: on.rewind("pair", "no step")),
    (WorkflowBusy, lambda on: on.delete(["day", "boss"])),
    (UnknownQueue, lambda on: on.resume("day", queue="none")),
    (UnknownQueue, lambda on: on.fork("pair", queue="none")),
    (InvalidArgument, lambda on: on.rewind("pair", queue="line", partition_key="k")),
    (InvalidArgument, lambda on: on.rewind("pair", queue="parts")),
    (InvalidArgument, lambda on: on.fork("pair", queue="parts")),
    (InvalidArgument, lambda on: on.resume(["pair", "day"], queue="parts")),
    (UnknownVersion, lambda on: on.fork("pair", version="none")),
]


async def test_refusals_are_recorded_and_raised_again(lab: Lab) -> None:
    """A body that catches one goes the same way at a replay, whatever the database holds then."""
    seen: list[list[str]] = []

    @workflow(name="boss")
    async def boss() -> int:
        seen.append([])
        for kind, use in REFUSALS:
            with pytest.raises(kind) as caught:
                await use(workflows())
            seen[-1].append(str(caught.value))
        return len(REFUSALS)

    await peopled(lab, boss)
    assert await boss.options(id="boss")() == len(REFUSALS)
    assert await lab.state("day") == "PENDING"
    assert len(await lab.steps("boss")) == len(REFUSALS)
    lab.store.forget()
    await lab.rerun("boss")
    assert lab.store.counts["manage"] == 0
    assert seen[0] == seen[1]


def wrong() -> list[Use]:
    """Calls none of which can be meant."""
    later = datetime.now(UTC)
    return [
        lambda on: on.cancel(""),
        lambda on: on.cancel(["day", "x" * 600]),
        lambda on: on.cancel(7),
        lambda on: on.cancel(["day", None]),
        lambda on: on.cancel("day", children=1),
        lambda on: on.resume("day", queue=""),
        lambda on: on.resume("day", queue="_dbos_x"),
        lambda on: on.fork("pair", 0),
        lambda on: on.fork("pair", True),
        lambda on: on.fork("pair", 2**31),
        lambda on: on.fork("pair", " "),
        lambda on: on.fork("pair", 1.5),
        lambda on: on.fork("pair", id="a\x00b"),
        lambda on: on.fork("pair", priority=1),
        lambda on: on.fork("pair", timeout=0),
        lambda on: on.fork("pair", partition_key="k"),
        lambda on: on.fork("pair", version=""),
        lambda on: on.fork("pair", children=["a"]),
        lambda on: on.fork("pair", children={"a": ""}),
        lambda on: on.fork_many("pair"),
        lambda on: on.fork_many(["pair"], fork_ids=["a", "b"]),
        lambda on: on.rewind("pair", -1),
        lambda on: on.rewind("pair", timeout=1),
        lambda on: on.delete(b"day"),
        lambda on: on.set_delay("later"),
        lambda on: on.set_delay("later", 1, until=later),
        lambda on: on.set_delay("later", -1),
        lambda on: on.set_delay("later", until=later.replace(tzinfo=None)),
        lambda on: on.set_delay("later", until="tomorrow"),
        lambda on: on.set_attributes("day", ["a"]),
        lambda on: on.set_attributes("day", None, merge=True),
        lambda on: on.set_attributes("day", {"a": object()}),
        lambda on: on.set_attributes("day", {"a": ["b\x00"]}),
        lambda on: on.set_attributes("day", {1: 2}),
    ]


async def test_a_wrong_argument_is_refused_before_anything_is_written(memory_lab: Lab) -> None:
    """As a usage or serialization error that names it, and it spends no id in a body."""
    refused: list[str] = []

    @workflow(name="boss")
    async def boss() -> str:
        for use in wrong():
            try:
                await use(workflows())
            except Exception as error:  # noqa: BLE001 - which it was is looked at below
                refused.append(type(error).__name__)
        await look()
        return "ended"

    await peopled(memory_lab, boss)
    await boss.options(id="boss")()
    assert set(refused) == {"InvalidArgument", "UnserializableValue"}
    assert len(refused) == len(wrong())
    assert await memory_lab.history("boss") == [(1, "look")]
    assert memory_lab.store.counts["manage"] == 0


async def test_another_engines_commands_are_refused_in_a_body(shared_lab: Lab) -> None:
    """The history of a workflow lives in one database; it spends no id, and a step may give it."""
    other = await shared_lab.start(day)
    await day.options(id="day", engine=other).start()

    @step(name="elsewhere")
    async def elsewhere() -> list[str]:
        return list(await other.workflows.cancel("day"))

    @workflow(name="boss")
    async def boss() -> list[str]:
        with pytest.raises(WrongPlace, match="another engine"):
            await other.workflows.cancel("boss")
        with pytest.raises(WrongPlace, match="another engine"):
            await other.handle("boss").cancel()
        return await elsewhere()

    engine = await shared_lab.start(boss)
    assert await boss.options(id="boss", engine=engine)() == ["day"]
    assert await shared_lab.history("boss") == [(1, "elsewhere")]


async def test_a_command_about_nothing_is_a_step_all_the_same(memory_lab: Lab) -> None:
    """So that the ids of what follows do not depend on how many there were."""

    @workflow(name="boss")
    async def boss() -> list[Any]:
        on = workflows()
        results = [await on.cancel([], children=True), await on.delete([]), await on.resume([])]
        await look()
        return results

    await peopled(memory_lab, boss)
    assert await boss.options(id="boss")() == [[], [], []]
    assert names(await memory_lab.history("boss")) == [
        "DBOS.cancelWorkflow",
        "DBOS.deleteWorkflow",
        "DBOS.resumeWorkflow",
        "look",
    ]


async def test_handles_come_in_the_order_of_the_ids_and_know_that_there_is_something(
    memory_lab: Lab,
) -> None:
    """Also to what had its outcome; once it is removed nobody waits for it."""
    await peopled(memory_lab)
    on = memory_lab.engine.workflows
    await on.cancel("day")
    resumed = await on.resume(["later", "pair", "day"])
    assert handles(*resumed) == ["later", "pair", "day"]
    assert await resumed[1].result() == ["X0", "X1"]
    made = [*resumed, await on.fork("pair"), await on.rewind("pair")]
    await on.delete(handles(*made))
    for handle in made:
        with pytest.raises(WorkflowNotFound):
            await handle.result(timeout=20)


async def test_what_has_a_key_is_resumed_into_a_partition(memory_lab: Lab) -> None:
    """“the partition key … stay”: what has none is refused, unless it is left alone anyway."""
    await peopled(memory_lab)
    on = memory_lab.engine.workflows
    await child.options(id="keyed", queue="parts", partition_key="k", delay=3_600).start("z")
    keyed, ended = await on.resume(["keyed", "pair"], queue="parts")
    assert await keyed.result(timeout=20) == "Z"
    assert await ended.result() == ["X0", "X1"]
    with pytest.raises(InvalidArgument, match="workflow 'day' has no key"):
        await on.resume("day", queue="parts")


async def test_forks_are_made_together_and_each_goes_on(lab: Lab) -> None:
    """Handles come in the order of the ids; replaced children are waited for in their places."""
    await peopled(lab)
    on = lab.engine.workflows
    await pair.options(id="other")("y")
    made = await on.fork_many(["other", "pair"], LastStep.RECORDED, fork_ids=["b", "a"])
    assert handles(*made) == ["b", "a"]
    assert [await each.result() for each in made] == [["Y0", "Y1"], ["X0", "X1"]]
    await child.options(id="mine")("z")
    fork = await on.fork("pair", 2, children={"pair-1": "mine"}, timeout=timedelta(hours=1))
    assert await fork.result() == ["Z", "X1"]
    row = await fork.status()
    assert (row.forked_from, row.timeout_ms) == ("pair", 3_600_000)


async def test_a_delay_that_is_moved_is_kept(lab: Lab) -> None:
    """A process that moves the instant nearer begins the work then."""
    await peopled(lab)
    assert await lab.engine.workflows.set_delay("later", timedelta(minutes=5)) == ["later"]
    lab.clock.leap(301)
    await lab.until_attempts("later", 1)


async def test_a_command_whose_answer_was_lost_is_known_again(memory_lab: Lab) -> None:
    """It is given once, and its result is what it did then."""

    @workflow(name="boss")
    async def boss() -> list[str]:
        return list(await workflows().cancel("day"))

    await peopled(memory_lab, boss)
    memory_lab.store.fail("manage", DatabaseUnavailable("cut"), after=True)
    assert await boss.options(id="boss")() == ["day"]
    assert memory_lab.store.counts["manage"] == 2
    assert len(await memory_lab.steps("boss")) == 1


async def test_without_an_engine_there_is_nobody_to_ask(memory_lab: Lab) -> None:
    """`workflows()` says so, and an engine that is not started, whatever it is asked."""
    with pytest.raises(NotRunning):
        workflows()
    with pytest.raises(NotRunning):
        memory_lab.built().workflows.cancel("")
