"""Rows as the other SDKs leave them: read for what they say, and never a reason to fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import RemoteError, workflow
from perdure.errors import FormatUnavailable, UndecodableValue, WorkflowNotFound
from tests.support.engines import Lab


@workflow(name="ours")
async def ours(number: int) -> int:
    return number + 1


async def row(lab: Lab, workflow_id: str, **columns: Any) -> None:
    """Insert a workflow as another program would, with these columns."""
    values = {"workflow_uuid": workflow_id, "name": "theirs", "status": "SUCCESS", **columns}
    places = ", ".join("?" for _ in values)
    await lab.backdoor.run(
        f"INSERT INTO workflow_status ({', '.join(values)}) VALUES ({places})", *values.values()
    )


PORTABLE = {"serialization": "portable_json"}


@pytest.mark.parametrize(
    ("columns", "result"),
    [
        ({"output": '{"a": [1, null]}', **PORTABLE}, {"a": [1, None]}),
        ({"output": "7", "error": "", **PORTABLE}, 7),
        ({"output": "null", **PORTABLE}, None),
        (PORTABLE, None),
    ],
    ids=["legacy column", "an empty error", "null", "no output"],
)
async def test_a_result_written_elsewhere_is_read(
    shared_lab: Lab, columns: dict[str, Any], result: Any
) -> None:
    engine = await shared_lab.start(ours)
    await row(shared_lab, "w", **columns)
    assert await engine.handle("w") == result


@pytest.mark.parametrize(
    ("envelope", "name", "message", "code", "data"),
    [
        ('{"name":"RangeError","message":"rng"}', "RangeError", "rng", None, None),
        (
            '{"name":"NotFound","message":"m","code":404,"data":{"a":1}}',
            "NotFound",
            "m",
            404,
            {"a": 1},
        ),
        ('{"message": "spaced", "name": "E", "code": "X1"}', "E", "spaced", "X1", None),
    ],
    ids=["TypeScript", "all there is", "another order"],
)
async def test_an_error_written_elsewhere_is_read(
    shared_lab: Lab, envelope: str, name: str, message: str, code: Any, data: Any
) -> None:
    """None of its classes is known here, so it is a remote error with all that was recorded."""
    engine = await shared_lab.start(ours)
    await row(shared_lab, "w", status="ERROR", error=envelope, **PORTABLE)
    with pytest.raises(RemoteError) as raised:
        await engine.handle("w")
    error = raised.value
    assert (error.name, error.message, error.code, error.data) == (name, message, code, data)


async def test_an_error_of_a_built_in_name_is_not_taken_for_the_built_in(shared_lab: Lab) -> None:
    """Only what we recorded ourselves says of which class it was."""
    engine = await shared_lab.start(ours)
    await row(
        shared_lab,
        "w",
        status="ERROR",
        error='{"name":"KeyboardInterrupt","message":"x","code":null}',
        **PORTABLE,
    )
    with pytest.raises(RemoteError, match="KeyboardInterrupt: x"):
        await engine.handle("w")


@pytest.mark.parametrize("label", ["js_superjson", "DBOS_JSON", "java_jackson", "py_pickle"])
async def test_a_result_in_a_format_that_is_not_read_here_says_so(
    shared_lab: Lab, label: str
) -> None:
    engine = await shared_lab.start(ours)
    await row(shared_lab, "w", output="eyJhIjoxfQ==", serialization=label)
    with pytest.raises(FormatUnavailable, match=label):
        await engine.handle("w")


async def test_an_error_in_a_format_that_is_not_read_here_is_shown_as_it_stands(
    shared_lab: Lab,
) -> None:
    engine = await shared_lab.start(ours)
    await row(shared_lab, "w", status="ERROR", error="the bare message", serialization="DBOS_JSON")
    with pytest.raises(RemoteError, match="the bare message"):
        await engine.handle("w")


async def test_one_row_that_cannot_be_read_spoils_no_listing(shared_lab: Lab) -> None:
    """Nor does one with nothing in it but what the schema demands."""
    lab = shared_lab
    engine = await lab.start(ours)
    assert await ours.options(id="good")(1) == 2
    await row(lab, "bad", output="{", inputs="not JSON", attributes='"a text"', **PORTABLE)
    await row(lab, "bare", status="PENDING")
    await row(lab, "superjson", output='{"json":1}', serialization="js_superjson", name="")
    listed = await engine.workflows.list(with_inputs=True, with_outputs=True)
    assert {each.workflow_id for each in listed} == {"good", "bad", "bare", "superjson"}
    by_id = {each.workflow_id: each for each in listed}
    assert (by_id["bad"].output, by_id["bad"].inputs) == ("{", "not JSON")
    assert (by_id["bare"].executor_id, by_id["bare"].application_version) == (None, None)
    with pytest.raises(UndecodableValue):
        await engine.handle("bad")
    with pytest.raises(WorkflowNotFound):
        await engine.workflows.get("none")


async def test_steps_numbered_from_zero_are_listed_as_they_are(shared_lab: Lab) -> None:
    """As TypeScript, Go and Java count; markers have neither output nor error."""
    lab = shared_lab
    engine = await lab.start(ours)
    await row(lab, "w", **PORTABLE)
    for step_id, name, output in ((0, "first", "1"), (1, "DBOS.setEvent", None)):
        await lab.backdoor.run(
            "INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, output)"
            " VALUES ('w', ?, ?, ?)",
            step_id,
            name,
            output,
        )
    steps = await engine.workflows.steps("w")
    assert [(each.step_id, each.name, each.output) for each in steps] == [
        (0, "first", "1"),
        (1, "DBOS.setEvent", None),
    ]


async def test_a_workflow_of_nobody_s_is_waited_for_until_somebody_ends_it(shared_lab: Lab) -> None:
    """A row that is PENDING without an owner token is an outsider's: it is not touched."""
    lab = shared_lab
    engine = await lab.start(ours)
    await row(lab, "w", status="PENDING", executor_id="theirs", **PORTABLE)
    before = await lab.status("w")
    waiting = asyncio.ensure_future(engine.handle("w").result())
    await ours.options(id="another")(1)
    await lab.rerun("another")
    assert await lab.status("w") == before
    assert not waiting.done()
    await lab.backdoor.run(
        "UPDATE workflow_status SET status = 'SUCCESS', output = '5' WHERE workflow_uuid = 'w'"
    )
    assert await waiting == 5
