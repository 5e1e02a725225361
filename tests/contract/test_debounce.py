"""Debounced starts, and `Bounce`: pushing one back with other arguments."""

import asyncio
from typing import Any

import pytest

from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.management import Bounce, Caller, Holder, Managed, Recorded
from perdure.model.workflow import NewWorkflow
from tests.support import rows
from tests.support.store import Process, Site, kinds

HELD = "job-key"
PERIOD_MS = 10_000
NOBODY = Managed()


def debounced(**fields: Any) -> NewWorkflow:
    """A start that is debounced under the key, for any time unless told otherwise."""
    values = {"delay_ms": PERIOD_MS, "deduplication_id": HELD, "debounce_ms": 0, **fields}
    return rows.enqueued(**values)


def bounce(**fields: Any) -> Bounce:
    """Pushes back what waits under the key."""
    return Bounce(debounced(**fields))


async def test_a_debounced_start_says_so(site: Site, me: Process) -> None:
    """“`debounce_ms` is set for one whose delay may be pushed back: to that long from now at most,
    0 for any time”."""
    bounded = await me.started(debounced(debounce_ms=30_000))
    free = await me.started(debounced(deduplication_id="other"))
    plain = await me.waiting(delay_ms=5)
    first, second, third = [await site.status(each.workflow_id) for each in (bounded, free, plain)]
    assert first["debounce_deadline_epoch_ms"] - first["delay_until_epoch_ms"] == 20_000
    assert (second["debounce_deadline_epoch_ms"], bool(second["is_debounced"])) == (None, True)
    assert (third["debounce_deadline_epoch_ms"], bool(third["is_debounced"])) == (None, False)
    assert {first["status"], second["status"], first["deduplication_id"]} == {"DELAYED", HELD}


async def test_a_bounce_pushes_back_and_replaces(site: Site, me: Process) -> None:
    """“It is due `delay_ms` from now”; “its inputs and their serialization, the version if the
    start has one, and whom it runs for become the start's; `updated_at` is now”."""
    run = await me.started(debounced())
    before = await site.status(run.workflow_id)
    written = await site.payload("workflow_input", run.workflow_id)
    site.clock.advance(8_000)
    asked = bounce(
        inputs="[2]",
        serialization="other",
        application_version="v2",
        authenticated_user="ada",
        authenticated_roles='["a"]',
        assumed_role="a",
    )
    assert await me.managed(asked) == Managed((run.workflow_id,))
    after = await site.status(run.workflow_id)
    changed = {column for column in after if after[column] != before[column]}
    assert changed == {
        "delay_until_epoch_ms",
        "updated_at",
        "serialization",
        "application_version",
        "authenticated_user",
        "authenticated_roles",
        "assumed_role",
    }
    assert after["delay_until_epoch_ms"] - after["updated_at"] == PERIOD_MS
    inputs = await site.payload("workflow_input", run.workflow_id)
    assert written is not None
    assert inputs == {**written, "inputs": "[2]"}
    assert await me.managed(bounce(application_version=None)) == Managed((run.workflow_id,))
    assert (await site.status(run.workflow_id))["application_version"] == "v2"


async def test_the_deadline_bounds_every_bounce(site: Site, me: Process) -> None:
    """“but not after its debounce deadline”."""
    run = await me.started(debounced(debounce_ms=45_000))
    begun = await site.status(run.workflow_id)
    site.clock.advance(8_000)
    await me.managed(bounce(delay_ms=90_000))
    bounded = await site.status(run.workflow_id)
    assert bounded["delay_until_epoch_ms"] == begun["debounce_deadline_epoch_ms"]
    await me.managed(bounce(delay_ms=1_000))
    nearer = await site.status(run.workflow_id)
    assert nearer["delay_until_epoch_ms"] == nearer["updated_at"] + 1_000


@pytest.mark.parametrize(
    "fields", [{"name": "else"}, {"class_name": "C"}, {"class_name": "C", "config_name": "c"}]
)
async def test_one_of_another_function_is_left_alone(
    site: Site, me: Process, fields: dict[str, Any]
) -> None:
    """“of the start's function”; “Of any other holder nothing changes, and `holder` shows it”."""
    run = await me.started(debounced())
    before = await site.status(run.workflow_id)
    holder = Holder(run.workflow_id, True, "job", "app")
    assert await me.managed(bounce(**fields)) == Managed(holder=holder)
    assert await site.status(run.workflow_id) == before


async def test_an_empty_class_is_none(site: Site, me: Process) -> None:
    """“of the start's function”: programs write an absent class in two ways."""
    run = await me.started(debounced())
    await site.update(run.workflow_id, class_name="", config_name="")
    assert (await me.managed(bounce())).ids == (run.workflow_id,)


@pytest.mark.parametrize("status", ["ENQUEUED", "PENDING"])
async def test_only_what_is_delayed_is_pushed_back(site: Site, me: Process, status: str) -> None:
    """“if it is DELAYED and debounced”: other programs may leave the id with what is not."""
    run = await me.started(debounced())
    await site.update(run.workflow_id, status=status)
    holder = Holder(run.workflow_id, True, "job", "app")
    assert await me.managed(bounce()) == Managed(holder=holder)


async def test_a_plain_holder_is_shown(site: Site, me: Process) -> None:
    """“if it is DELAYED and debounced”; “`holder` shows it”."""
    run = await me.waiting(deduplication_id=HELD, delay_ms=PERIOD_MS)
    holder = Holder(run.workflow_id, False, "job", "app")
    assert await me.managed(bounce()) == Managed(holder=holder)


async def test_who_just_became_enqueued_holds_nothing(site: Site, me: Process) -> None:
    """“A row that just became ENQUEUED holds the id no more”."""
    assert await me.managed(bounce()) == NOBODY
    run = await me.started(debounced())
    site.clock.advance(PERIOD_MS + 1)
    await me.sweep()
    assert (await site.status(run.workflow_id))["deduplication_id"] is None
    assert await me.managed(bounce()) == NOBODY
    assert kinds(await me.start(debounced())) == [AnswerKind.WRITTEN]


async def test_what_is_nobodys_becomes_the_applications(site: Site, me: Process) -> None:
    """“of its application (this one unless named) or of none”; “it becomes the application's”."""
    run = await me.started(debounced())
    await site.update(run.workflow_id, application_name=None)
    assert (await me.managed(bounce(application_name="other"))).ids == (run.workflow_id,)
    assert (await site.status(run.workflow_id))["application_name"] == "other"
    holder = Holder(run.workflow_id, True, "job", "other")
    assert await me.managed(bounce()) == Managed(holder=holder)
    assert (await me.managed(bounce(application_name="other"))).ids == (run.workflow_id,)


async def test_a_missing_payload_is_written(site: Site, me: Process) -> None:
    """“its inputs … become the start's”: also where another program left none."""
    run = await site.foreign(
        status="DELAYED",
        is_debounced=True,
        deduplication_id=HELD,
        delay_until_epoch_ms=1,
        application_name="app",
    )
    assert (await me.managed(bounce(inputs="[3]"))).ids == (run,)
    inputs = await site.payload("workflow_input", run)
    assert inputs is not None
    assert inputs["inputs"] == "[3]"


def recorder(run: NewWorkflow, step_id: int = 1) -> Caller:
    """A step that becomes the start of a child if one was pushed back, and else is not written."""

    def record(managed: Managed) -> Recorded | None:
        return Recorded(None, None, None, managed.ids[0]) if managed.ids else None

    step = rows.checkpoint(run, step_id, name="job", output=None, serialization=None)
    return Caller(step, record)


async def test_a_step_is_written_only_for_what_was_done(site: Site, me: Process) -> None:
    """“If it makes None of it the step is not written”."""
    parent = await me.running()
    answer = await me.store.manage(bounce(), recorder(parent))
    assert (answer.kind, answer.standing) == (AnswerKind.WRITTEN, NOBODY)
    assert await site.steps(parent.workflow_id) == []
    run = await me.started(debounced())
    answer = await me.store.manage(bounce(), recorder(parent))
    assert answer.standing == Managed((run.workflow_id,))
    (step,) = await site.steps(parent.workflow_id)
    assert (step["function_name"], step["child_workflow_id"]) == ("job", run.workflow_id)
    before = await site.status(run.workflow_id)
    assert (await me.store.manage(bounce(), recorder(parent))).kind is AnswerKind.MINE
    assert await site.status(run.workflow_id) == before


async def test_callers_race(site: Site, me: Process) -> None:
    """Exactly one workflow comes of calls at once, with the arguments of one of them."""
    other = await site.process()

    async def call(process: Process, number: int) -> WorkflowId:
        new = debounced(inputs=f"[{number}]")
        while True:
            pushed = await process.managed(Bounce(new))
            if pushed.ids:
                return pushed.ids[0]
            assert pushed.holder is None
            (answer,) = await process.start(new._replace(creator=rows.token()))
            if answer.kind is AnswerKind.WRITTEN:
                return new.workflow_id

    for _ in range(10):
        calls = [call((me, other)[number % 2], number) for number in range(8)]
        found = set(await asyncio.gather(*calls))
        assert len(found) == 1
        site.clock.advance(PERIOD_MS + 1)
        await me.sweep()


async def test_a_bounce_races_the_end_of_the_wait(site: Site, me: Process) -> None:
    """“A row that just became ENQUEUED holds the id no more”: it is pushed back, or begins."""
    other = await site.process()
    for number in range(30):
        run = await me.started(debounced(inputs="[1]"))
        site.clock.advance(PERIOD_MS + 1)
        pushed, _ = await asyncio.gather(me.managed(bounce(inputs="[2]")), other.sweep())
        row = await site.status(run.workflow_id)
        inputs = await site.payload("workflow_input", run.workflow_id)
        assert inputs is not None
        came_first = pushed.ids == (run.workflow_id,)
        assert came_first or pushed == NOBODY, number
        assert (row["status"], inputs["inputs"]) == (
            ("DELAYED", "[2]") if came_first else ("ENQUEUED", "[1]")
        )
        await me.cancel([run.workflow_id])
