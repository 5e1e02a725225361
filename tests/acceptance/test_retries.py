"""Steps that are tried again: how often, how long between, and what is recorded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from perdure import ConfigurationError, StepRetriesExhausted, current, step, workflow
from perdure.api.step import Step
from tests.support.engines import Lab
from tests.support.workflows import calling


class Flaky:
    """A step that fails as often as it is told, and counts."""

    def __init__(self, failures: int, **options: Any) -> None:
        self.runs = 0

        @step(name="flaky", **options)
        async def flaky() -> str:
            self.runs += 1
            if self.runs <= failures:
                raise ValueError(f"failure {self.runs}")
            return f"run {self.runs}"

        self.step: Step[[], str] = flaky


async def test_two_failures_then_success_is_one_row_with_one_id(lab: Lab) -> None:
    """Three runs, one checkpoint with the winning output."""
    flaky = Flaky(2, max_attempts=5, interval=0)
    calls = calling(flaky.step)
    await lab.start(calls)
    assert await calls.options(id="w")() == "run 3"
    (row,) = await lab.steps("w")
    assert (row["function_id"], row["output"], row["error"]) == (1, '"run 3"', None)
    assert flaky.runs == 3


async def test_exhausted_attempts_are_one_error_with_all_of_theirs(lab: Lab) -> None:
    """The error names the step, counts the attempts and holds their errors, oldest first."""
    flaky = Flaky(9, max_attempts=3, interval=0)
    calls = calling(flaky.step)
    engine = await lab.start(calls)
    with pytest.raises(StepRetriesExhausted, match="'flaky' failed 3 times") as raised:
        await calls.options(id="w")()
    (row,) = await lab.steps("w")
    assert row["output"] is None
    assert json.loads(row["error"])["name"] == "StepRetriesExhausted"
    assert await lab.state("w") == "ERROR"
    with pytest.raises(StepRetriesExhausted) as read:
        await engine.handle("w")
    for error in (raised.value, read.value):
        assert (error.step, error.attempts) == ("flaky", 3)
        assert [str(each) for each in error.errors] == ["failure 1", "failure 2", "failure 3"]
        assert {type(each) for each in error.errors} == {ValueError}
    assert flaky.runs == 3


async def test_by_default_there_is_one_attempt_and_its_failure_stays_itself(lab: Lab) -> None:
    """No retry unless asked for; the failure is recorded unwrapped."""
    flaky = Flaky(1)
    calls = calling(flaky.step)
    await lab.start(calls)
    with pytest.raises(ValueError, match="failure 1"):
        await calls.options(id="w")()
    (row,) = await lab.steps("w")
    assert json.loads(row["error"])["name"] == "ValueError"
    assert flaky.runs == 1


async def test_a_retried_step_replays_from_its_one_checkpoint(lab: Lab) -> None:
    """Neither a success after failures nor a final failure enters the body again."""
    good, bad = Flaky(2, max_attempts=3, interval=0), Flaky(9, max_attempts=2, interval=0)

    @workflow(name="both")
    async def both() -> list[str]:
        first = await good.step()
        try:
            return [first, await bad.step()]
        except StepRetriesExhausted as error:
            return [first, *(str(each) for each in error.errors)]

    await lab.start(both)
    first = await both.options(id="w")()
    assert first == ["run 3", "failure 1", "failure 2"]
    assert (await lab.rerun("w"))["status"] == "SUCCESS"
    assert json.loads(await lab.output("w") or "") == first
    assert (good.runs, bad.runs) == (3, 2)


async def test_the_predicate_stops_a_permanent_failure_and_retries_a_transient_one(
    memory_lab: Lab,
) -> None:
    """`no` at the first failure raises it unwrapped; at a later one what there is so far."""
    asked: list[str] = []

    def is_transient(error: BaseException) -> bool:
        asked.append(str(error))
        return "2" not in str(error)

    flaky = Flaky(9, max_attempts=5, interval=0, retry_if=is_transient)
    permanent = Flaky(9, max_attempts=5, retry_if=lambda _: False)
    first, second = calling(flaky.step), calling(permanent.step)
    await memory_lab.start(first)
    with pytest.raises(StepRetriesExhausted) as raised:
        await first()
    assert (raised.value.attempts, asked) == (2, ["failure 1", "failure 2"])
    await memory_lab.engine.stop()
    await memory_lab.start(second)
    with pytest.raises(ValueError, match="failure 1"):
        await second()
    assert (flaky.runs, permanent.runs) == (2, 1)


async def test_a_predicate_that_fails_is_the_steps_failure(memory_lab: Lab) -> None:
    """Its error is recorded, not lost."""

    def broken(_: BaseException) -> bool:
        raise KeyError("predicate")

    calls = calling(Flaky(9, max_attempts=5, retry_if=broken).step)
    await memory_lab.start(calls)
    with pytest.raises(KeyError, match="predicate"):
        await calls.options(id="w")()
    assert json.loads((await memory_lab.steps("w"))[0]["error"])["name"] == "KeyError"


async def test_the_back_off_grows_is_capped_and_is_not_slept_after_the_last(
    memory_lab: Lab,
) -> None:
    """Four attempts wait three times; the first failure waits the interval."""
    flaky = Flaky(
        9, max_attempts=5, interval=0.001, backoff_rate=3, max_interval=0.005, jitter=False
    )
    calls = calling(flaky.step)
    await memory_lab.start(calls)
    memory_lab.clock.slept.clear()
    with pytest.raises(StepRetriesExhausted):
        await calls()
    assert memory_lab.clock.slept == pytest.approx([0.001, 0.003, 0.005, 0.005])


async def test_hundreds_of_attempts_never_overflow_the_back_off(memory_lab: Lab) -> None:
    """The delay is clamped however large the product, and every attempt is made."""
    flaky = Flaky(9_999, max_attempts=400, interval=1, backoff_rate=10, max_interval=0)
    calls = calling(flaky.step)
    await memory_lab.start(calls)
    with pytest.raises(StepRetriesExhausted) as raised:
        await calls()
    assert (raised.value.attempts, flaky.runs) == (400, 400)


async def test_zero_is_honoured_not_taken_for_unset(memory_lab: Lab) -> None:
    """An interval of zero waits zero; a rate of zero waits once and then never."""
    none = Flaky(2, max_attempts=3, interval=0)
    once = Flaky(3, max_attempts=4, interval=0.001, backoff_rate=0)
    for flaky, expected in ((none, [0, 0]), (once, [0.001, 0, 0])):
        calls = calling(flaky.step)
        await memory_lab.start(calls)
        memory_lab.clock.slept.clear()
        await calls()
        await memory_lab.engine.stop()
        assert memory_lab.clock.slept == expected


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": True},
        {"max_attempts": 2.0},
        {"interval": -1},
        {"interval": float("nan")},
        {"interval": "5"},
        {"max_interval": float("inf")},
        {"backoff_rate": -0.1},
        {"backoff_rate": float("nan")},
        {"backoff_rate": "2"},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": True},
        {"retry_if": True},
        {"max_atempts": 3},
    ],
    ids=str,
)
def test_an_option_that_cannot_work_is_refused_where_it_is_written(options: Any) -> None:
    """The error names the option; nothing is silently taken for something else."""
    (name,) = options
    with pytest.raises(ConfigurationError, match=name):
        step(**options)


async def test_a_step_waiting_for_its_next_attempt_stops_when_its_workflow_is_cancelled(
    lab: Lab,
) -> None:
    """A back-off only waits: it ends at once, and no further attempt is made."""
    failed = asyncio.Event()

    @step(name="slow", max_attempts=9, interval=3_600)
    async def slow() -> None:
        assert (current().attempt, failed.is_set()) == (1, False)
        failed.set()
        raise ValueError("later")

    calls = calling(slow)
    await lab.start(calls)
    handle = await calls.options(id="w").start()
    await lab.until_asleep(1_000)
    await handle.cancel()
    assert (await lab.until("w"))["status"] == "CANCELLED"
    await lab.until_nothing_runs()
    assert await lab.steps("w") == []


async def test_a_step_waiting_for_its_next_attempt_is_released_by_a_shutdown_at_once(
    shared_lab: Lab,
) -> None:
    """A stop with a long grace time does not wait for a back-off of an hour."""

    @step(name="slow", max_attempts=9, interval=3_600)
    async def slow() -> None:
        raise ValueError("later")

    calls = calling(slow)
    engine = await shared_lab.start(calls, grace=3_600)
    await calls.options(id="w").start()
    await shared_lab.until_asleep(1_000)
    await engine.stop()
    assert await shared_lab.state("w") == "ENQUEUED"
    assert await shared_lab.steps("w") == []
