"""`RunStore.start`: the values it writes, read back with plain SQL."""

import pytest

from perdure.model.status import WorkflowState
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import WorkflowKey
from tests.support import rows
from tests.support.store import Process, Site

NEVER_SET = (
    "request",
    "inputs",
    "output",
    "error",
    "completed_at",
    "forked_from",
    "schedule_name",
    "debounce_deadline_epoch_ms",
)
NOT_SAID = (
    "queue_name",
    "deduplication_id",
    "queue_partition_key",
    "delay_until_epoch_ms",
    "started_at_epoch_ms",
    "workflow_timeout_ms",
    "workflow_deadline_epoch_ms",
    "parent_workflow_id",
    "authenticated_user",
    "authenticated_roles",
    "assumed_role",
    "class_name",
    "config_name",
)
FLAGS = ("was_forked_from", "rate_limited", "is_debounced")
LARGEST = 2**63 - 1


async def test_a_direct_start_is_a_pending_row_owned_by_its_creator(
    site: Site, me: Process
) -> None:
    """“`state` is PENDING (direct start: `owner_xid` becomes `creator`, `recovery_attempts` 1)”."""
    run = await me.running("w-1")
    row = await site.status(run.workflow_id)
    assert row["status"] == "PENDING"
    assert row["owner_xid"] == row["creator_xid"] == run.creator
    assert row["recovery_attempts"] == 1
    assert row["executor_id"] == me.executor
    assert row["application_name"] == "app"
    assert row["application_version"] == rows.VERSION
    assert row["application_id"] == ""
    assert row["name"] == rows.KEY.name
    assert row["serialization"] == PORTABLE_JSON
    assert row["priority"] == 0
    assert [row[column] for column in NEVER_SET] == [None] * len(NEVER_SET)
    assert not any(row[column] for column in FLAGS)


async def test_what_a_direct_start_does_not_say_stays_null(site: Site, me: Process) -> None:
    """“Everything a start or an enqueue decides about a row”: nothing else is made up."""
    run = await me.running()
    row = await site.status(run.workflow_id)
    assert {column: row[column] for column in NOT_SAID} == dict.fromkeys(NOT_SAID)


async def test_an_enqueued_row_belongs_to_nobody(site: Site, me: Process) -> None:
    """“ENQUEUED or DELAYED (owner NULL, attempts 0)”."""
    waiting = await me.waiting()
    row = await site.status(waiting.workflow_id)
    assert row["status"] == "ENQUEUED"
    assert row["owner_xid"] is None
    assert row["creator_xid"] == waiting.creator
    assert row["recovery_attempts"] == 0
    assert row["queue_name"] == rows.QUEUE
    assert row["executor_id"] == me.executor
    assert row["started_at_epoch_ms"] is None
    assert row["delay_until_epoch_ms"] is None
    assert not any(row[column] for column in FLAGS)


async def test_a_delayed_row_is_due_that_long_after_the_database_clock(
    site: Site, me: Process
) -> None:
    """“`delay_ms` is relative to the database's clock and only for DELAYED”."""
    before = await me.store.now_ms()
    waiting = await me.waiting(delay_ms=60_000)
    after = await me.store.now_ms()
    row = await site.status(waiting.workflow_id)
    assert row["status"] == "DELAYED"
    assert row["owner_xid"] is None
    assert row["recovery_attempts"] == 0
    assert before + 60_000 <= row["delay_until_epoch_ms"] <= after + 60_000


async def test_every_field_a_start_can_say_is_stored(site: Site, me: Process) -> None:
    """“Everything a start or an enqueue decides about a row”."""
    waiting = await me.waiting(
        name="résumé.build",
        class_name="Klass",
        config_name="cfg1",
        application_version="v-other",
        priority=7,
        deduplication_id="dedup",
        partition_key="tenant",
        timeout_ms=1234,
        deadline_ms=9_999_999_999_999,
        parent_workflow_id=rows.wid("the-parent"),
        attributes='{"a":[1,null,"é"]}',
        authenticated_user="bob",
        authenticated_roles='["a", "b"]',
        assumed_role="a",
    )
    row = await site.status(waiting.workflow_id)
    assert row["name"] == "résumé.build"
    assert (row["class_name"], row["config_name"]) == ("Klass", "cfg1")
    assert row["application_version"] == "v-other"
    assert (row["priority"], row["queue_partition_key"]) == (7, "tenant")
    assert row["deduplication_id"] == "dedup"
    assert row["workflow_timeout_ms"] == 1234
    assert row["workflow_deadline_epoch_ms"] == 9_999_999_999_999
    assert row["parent_workflow_id"] == "the-parent"
    assert row["authenticated_user"] == "bob"
    assert row["authenticated_roles"] == '["a", "b"]'
    assert row["assumed_role"] == "a"
    assert (await site.read(waiting.workflow_id)).key == WorkflowKey(
        "résumé.build", "Klass", "cfg1"
    )


async def test_instants_are_milliseconds_of_the_database_clock(site: Site, me: Process) -> None:
    """“All instants are integer milliseconds since the Unix epoch on the database's clock”."""
    before = await me.store.now_ms()
    run = await me.running()
    after = await me.store.now_ms()
    row = await site.status(run.workflow_id)
    assert before <= row["created_at"] <= after
    assert row["updated_at"] == row["created_at"]
    stored = await site.payload("workflow_input", run.workflow_id)
    assert stored is not None
    assert before <= stored["retention_timestamp"] <= after


async def test_rows_made_one_after_the_other_are_ordered_by_creation(
    site: Site, me: Process
) -> None:
    """Instants of one row after the other never go back, and are finer than a second."""
    made = [await me.waiting() for _ in range(20)]
    created = [(await site.status(item.workflow_id))["created_at"] for item in made]
    assert created == sorted(created)
    assert any(instant % 1000 for instant in created)


async def test_inputs_go_to_the_payload_table_only(site: Site, me: Process) -> None:
    """“Insert new workflows with their inputs”: `workflow_input`, never the legacy column."""
    text = '{"namedArgs":{"π":"\\"quoted\\" and ☃"},"positionalArgs":[]}'
    run = await me.running(inputs=text)
    stored = await site.payload("workflow_input", run.workflow_id)
    assert stored is not None
    assert stored["inputs"] == text
    assert (await site.status(run.workflow_id))["inputs"] is None
    assert await site.payload("workflow_output", run.workflow_id) is None


async def test_a_timeout_of_a_direct_start_sets_the_deadline(site: Site, me: Process) -> None:
    """“For PENDING, `timeout_ms` without `deadline_ms` sets the deadline to the database's clock
    plus the timeout”."""
    before = await me.store.now_ms()
    run = await me.running(timeout_ms=5000)
    after = await me.store.now_ms()
    row = await site.status(run.workflow_id)
    assert row["workflow_timeout_ms"] == 5000
    assert before + 5000 <= row["workflow_deadline_epoch_ms"] <= after + 5000


async def test_a_deadline_wins_over_the_timeout_of_a_direct_start(site: Site, me: Process) -> None:
    """“`timeout_ms` without `deadline_ms` sets the deadline”: with one, it is kept."""
    run = await me.running(timeout_ms=5000, deadline_ms=4_000_000_000_000)
    row = await site.status(run.workflow_id)
    assert row["workflow_deadline_epoch_ms"] == 4_000_000_000_000
    assert row["workflow_timeout_ms"] == 5000


@pytest.mark.parametrize("timeout", [LARGEST, LARGEST - 1, LARGEST // 2 + 1])
async def test_a_deadline_saturates(site: Site, me: Process, timeout: int) -> None:
    """“(saturating at 2**63 - 1)”."""
    run = await me.running(timeout_ms=timeout)
    now = await me.store.now_ms()
    stored = (await site.status(run.workflow_id))["workflow_deadline_epoch_ms"]
    assert stored <= LARGEST
    assert stored >= min(timeout, LARGEST - now)


@pytest.mark.parametrize("delay", [None, 1000])
async def test_the_timeout_of_a_waiting_row_only_waits_for_the_claim(
    site: Site, me: Process, delay: int | None
) -> None:
    """“otherwise the timeout only waits for the claim”."""
    waiting = await me.waiting(timeout_ms=5000, delay_ms=delay)
    row = await site.status(waiting.workflow_id)
    assert row["workflow_timeout_ms"] == 5000
    assert row["workflow_deadline_epoch_ms"] is None


@pytest.mark.parametrize("attributes", [None, "null"])
async def test_absent_attributes_read_as_none(
    site: Site, me: Process, attributes: str | None
) -> None:
    """“NULL and '' texts are alike None”: so is the JSON null that other SDKs write."""
    run = await me.running(attributes=attributes)
    assert (await site.status(run.workflow_id))["attributes"] in (None, "null")
    assert (await site.read(run.workflow_id)).attributes is None


async def test_a_batch_of_a_thousand_is_written_in_order(site: Site, me: Process) -> None:
    """“Answers come in the order of the items”, whatever the size of the batch."""
    batch = [rows.enqueued(inputs=str(number)) for number in range(1000)]
    answers = await me.start(*batch)
    assert {answer.kind.value for answer in answers} == {"written"}
    assert len(answers) == 1000
    counted = await site.backdoor.rows("SELECT COUNT(*) AS n FROM workflow_status")
    assert counted[0]["n"] == 1000
    stored = await site.payload("workflow_input", batch[617].workflow_id)
    assert stored is not None
    assert stored["inputs"] == "617"


async def test_an_empty_batch_has_no_answers(me: Process) -> None:
    """“Answers come in the order of the items”."""
    assert await me.start() == []


async def test_a_started_row_reads_back_as_it_was_given(site: Site, me: Process) -> None:
    """“A workflow as a reader sees it: every column of the listing”."""
    run = await me.running(
        queue_name="q", priority=3, partition_key="p", parent_workflow_id=rows.wid("par")
    )
    row = await site.read(run.workflow_id)
    assert row.workflow_id == run.workflow_id
    assert row.state is WorkflowState.PENDING
    assert row.owner == run.creator
    assert row.inputs == run.inputs
    assert (row.queue_name, row.priority, row.partition_key) == ("q", 3, "p")
    assert row.parent_workflow_id == "par"
    assert row.executor_id == me.executor
    assert row.attempts == 1
    assert (row.output, row.error, row.completed_at_ms, row.started_at_ms) == (None,) * 4
