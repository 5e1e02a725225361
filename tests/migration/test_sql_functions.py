"""What the SQL functions of the shared schema do, alike in our databases and in those of dbos."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import asyncpg
import pytest

from perdure.store.postgres import schema
from tests.support.schemas import Connection, connected, connector

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EVERYTHING = """
SELECT dbos.enqueue_workflow(
    'w', 'q', ARRAY['1', '"two"', '{"a" : [1, 2]}']::json[], '{"k": [1, null]}', 'C', 'I', 'id',
    'v1', 5000, 7, 'dd', 3, 'pk', 'bob', '["a"]', 99, 'app'
)
"""


async def _row(connection: Connection, table: str, **key: str) -> dict[str, Any]:
    """The values that are set in the only row with that key, without the times of its making."""
    ((column, value),) = key.items()
    row = await connection.fetchrow(f"SELECT * FROM dbos.{table} WHERE {column} = $1", value)
    assert row is not None
    return {
        name: value
        for name, value in row.items()
        if value is not None and name not in {"created_at", "updated_at", "created_at_epoch_ms"}
    }


async def test_enqueue_writes_a_row_and_its_inputs(made_url: str) -> None:
    async with connected(made_url) as connection:
        assert await connection.fetchval(_EVERYTHING) == "id"
        row = await _row(connection, "workflow_status", workflow_uuid="id")
        assert _UUID.fullmatch(row.pop("owner_xid"))
        assert row == {
            "workflow_uuid": "id",
            "status": "DELAYED",
            "name": "w",
            "class_name": "C",
            "config_name": "I",
            "queue_name": "q",
            "application_version": "v1",
            "application_name": "app",
            "workflow_timeout_ms": 5000,
            "workflow_deadline_epoch_ms": 7,
            "delay_until_epoch_ms": 99,
            "deduplication_id": "dd",
            "priority": 3,
            "queue_partition_key": "pk",
            "authenticated_user": "bob",
            "authenticated_roles": '["a"]',
            "recovery_attempts": 0,
            "serialization": "portable_json",
            "was_forked_from": False,
            "rate_limited": False,
            "is_debounced": False,
        }
        inputs = await _row(connection, "workflow_input", workflow_uuid="id")
        assert inputs["inputs"] == (
            '{"positionalArgs" : [1,"two",{"a" : [1, 2]}], "namedArgs" : {"k": [1, null]}}'
        )
        assert not await connection.fetch("SELECT 1 FROM dbos.workflow_output")


async def test_enqueue_with_a_name_and_a_queue_alone(made_url: str) -> None:
    async with connected(made_url) as connection:
        workflow = await connection.fetchval("SELECT dbos.enqueue_workflow('w', 'q')")
        assert _UUID.fullmatch(workflow)
        row = await _row(connection, "workflow_status", workflow_uuid=workflow)
        assert _UUID.fullmatch(row.pop("owner_xid"))
        assert row == {
            "workflow_uuid": workflow,
            "status": "ENQUEUED",
            "name": "w",
            "queue_name": "q",
            "priority": 0,
            "recovery_attempts": 0,
            "serialization": "portable_json",
            "was_forked_from": False,
            "rate_limited": False,
            "is_debounced": False,
        }
        inputs = await _row(connection, "workflow_input", workflow_uuid=workflow)
        assert inputs["inputs"] == '{"positionalArgs" : [], "namedArgs" : {}}'


async def test_enqueue_under_an_id_that_exists_changes_its_time_alone(made_url: str) -> None:
    async with connected(made_url) as connection:
        await connection.fetchval(_EVERYTHING)
        await connection.execute("UPDATE dbos.workflow_status SET updated_at = 1")
        before = await _row(connection, "workflow_status", workflow_uuid="id")
        again = """
            SELECT dbos.enqueue_workflow(
                'other', 'elsewhere', ARRAY['2']::json[], workflow_id => 'id', priority => 9,
                deduplication_id => 'dd'
            )
        """
        assert await connection.fetchval(again) == "id"
        assert await _row(connection, "workflow_status", workflow_uuid="id") == before
        assert (
            await connection.fetchval("SELECT updated_at FROM dbos.workflow_status")
            > 1_700_000_000_000
        )
        inputs = await connection.fetchval("SELECT inputs FROM dbos.workflow_input")
        assert inputs.startswith('{"positionalArgs" : [1,')


async def test_enqueue_puts_missing_inputs_of_an_existing_id_back(made_url: str) -> None:
    async with connected(made_url) as connection:
        await connection.fetchval(_EVERYTHING)
        await connection.execute("DELETE FROM dbos.workflow_input")
        await connection.fetchval("SELECT dbos.enqueue_workflow('w', 'q', workflow_id => 'id')")
        inputs = await connection.fetchval("SELECT inputs FROM dbos.workflow_input")
        assert inputs == '{"positionalArgs" : [], "namedArgs" : {}}'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("NULL, 'q'", "Workflow name cannot be null or empty"),
        ("'', ''", "Workflow name cannot be null or empty"),
        ("'w', NULL", "Queue name cannot be null or empty"),
        ("'w', '', named_args => '3'", "Queue name cannot be null or empty"),
        ("'w', 'q', named_args => '[]', workflow_id => ''", "Named args must be a JSON object"),
        ("'w', 'q', named_args => 'null'", "Named args must be a JSON object"),
        (
            "'w', 'q', workflow_id => '', delay_until_epoch_ms => -1",
            "Workflow ID cannot be an empty string if provided.",
        ),
        ("'w', 'q', delay_until_epoch_ms => -1", "delay_until_epoch_ms must be >= 0"),
    ],
)
async def test_enqueue_refuses(made_url: str, arguments: str, message: str) -> None:
    async with connected(made_url) as connection:
        with pytest.raises(asyncpg.RaiseError) as refused:
            await connection.fetchval(f"SELECT dbos.enqueue_workflow({arguments})")
        assert (refused.value.sqlstate, refused.value.message) == ("P0001", message)
        assert not await connection.fetch("SELECT 1 FROM dbos.workflow_status")


async def test_enqueue_under_a_held_deduplication_id_writes_nothing(made_url: str) -> None:
    async with connected(made_url) as connection:
        await connection.fetchval(_EVERYTHING)
        with pytest.raises(asyncpg.UniqueViolationError) as refused:
            await connection.fetchval(
                "SELECT dbos.enqueue_workflow("
                "'w', 'q', workflow_id => 'second', deduplication_id => 'dd')"
            )
        assert refused.value.message == "DBOS queue duplicated"
        assert refused.value.detail == (
            "Workflow second with queue q and deduplication ID dd already exists"
        )
        assert await connection.fetchval("SELECT count(*) FROM dbos.workflow_status") == 1
        assert await connection.fetchval("SELECT count(*) FROM dbos.workflow_input") == 1
        elsewhere = "SELECT dbos.enqueue_workflow('w', 'other', deduplication_id => 'dd')"
        assert await connection.fetchval(elsewhere)


async def test_enqueue_passes_null_arguments_on(made_url: str) -> None:
    async with connected(made_url) as connection:
        await connection.fetchval("SELECT dbos.enqueue_workflow('w', 'q', NULL, NULL)")
        inputs = await connection.fetchval("SELECT inputs FROM dbos.workflow_input")
        assert inputs == '{"positionalArgs" : null, "namedArgs" : null}'


async def test_enqueue_is_not_misled_by_the_callers_search_path(made_url: str) -> None:
    async with connected(made_url) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(
            "CREATE SCHEMA trap;"
            "CREATE FUNCTION trap.gen_random_uuid() RETURNS uuid LANGUAGE sql "
            "AS $$ SELECT '00000000-0000-0000-0000-000000000000'::uuid $$;"
            "SET search_path TO trap, pg_catalog, dbos"
        )
        workflow = await connection.fetchval("SELECT dbos.enqueue_workflow('w', 'q')")
        assert workflow != "00000000-0000-0000-0000-000000000000"
        await transaction.rollback()


async def test_send_writes_a_message(made_url: str) -> None:
    async with connected(made_url) as connection:
        await connection.fetchval("SELECT dbos.enqueue_workflow('w', 'q', workflow_id => 'id')")
        await connection.fetchval("SELECT dbos.send_message('id', '{\"a\" : 1}')")
        row = await _row(connection, "notifications", destination_uuid="id")
        assert _UUID.fullmatch(row.pop("message_uuid"))
        assert row == {
            "destination_uuid": "id",
            "topic": "__null__topic__",
            "message": '{"a" : 1}',
            "serialization": "portable_json",
            "consumed": False,
        }


async def test_send_under_a_message_id_that_exists_changes_nothing(made_url: str) -> None:
    async with connected(made_url) as connection:
        await connection.fetchval("SELECT dbos.enqueue_workflow('w', 'q', workflow_id => 'id')")
        await connection.fetchval("SELECT dbos.send_message('id', '1', 't', 'm')")
        before = await _row(connection, "notifications", message_uuid="m")
        await connection.fetchval("SELECT dbos.send_message('id', '2', 'u', message_id => 'm')")
        assert await _row(connection, "notifications", message_uuid="m") == before
        assert before["topic"] == "t"
        assert await connection.fetchval("SELECT count(*) FROM dbos.notifications") == 1


async def test_send_to_a_workflow_that_does_not_exist_is_refused(made_url: str) -> None:
    async with connected(made_url) as connection:
        with pytest.raises(asyncpg.ForeignKeyViolationError) as refused:
            await connection.fetchval("SELECT dbos.send_message('nobody', '1')")
        assert refused.value.message == "DBOS non-existent workflow"
        assert refused.value.detail == "Destination workflow nobody does not exist"


async def test_the_fourth_argument_of_send_is_called_message_id(made_url: str) -> None:
    async with connected(made_url) as connection:
        with pytest.raises(asyncpg.UndefinedFunctionError):
            await connection.fetchval("SELECT dbos.send_message('id', '1', idempotency_key => 'k')")


async def test_a_message_wakes_listeners_when_it_is_committed(made_url: str) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with connected(made_url) as listener, connected(made_url) as sender:
        await listener.add_listener(
            "dbos_notifications_channel", lambda *said: heard.put_nowait(said[3])
        )
        await sender.fetchval("SELECT dbos.enqueue_workflow('w', 'q', workflow_id => 'id')")
        async with sender.transaction():
            await sender.fetchval("SELECT dbos.send_message('id', '1')")
            await listener.fetchval("SELECT 1")
            assert heard.empty()
        assert await asyncio.wait_for(heard.get(), 20) == "id::__null__topic__"
        await sender.fetchval("SELECT dbos.send_message('id', '1', 'news')")
        assert await asyncio.wait_for(heard.get(), 20) == "id::news"


async def test_a_topic_too_long_for_a_wake_up_is_sent_all_the_same(postgres_url: str) -> None:
    """Where dbos refuses the message: the wake-up is a hint, and the receiver also polls."""
    await schema.migrate(connector(postgres_url), "dbos")
    async with connected(postgres_url) as connection:
        await connection.fetchval("SELECT dbos.enqueue_workflow('w', 'q', workflow_id => 'id')")
        await connection.fetchval("SELECT dbos.send_message('id', '1', repeat('t', 9000))")
        assert await connection.fetchval("SELECT length(topic) FROM dbos.notifications") == 9000
