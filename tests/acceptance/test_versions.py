"""The version registry: which process runs what, and rolling back."""

from __future__ import annotations

import pytest

from perdure import Client, InvalidArgument, Queue, UnknownVersion, workflow
from perdure.errors import VersionOwnedByAnother
from tests.support.engines import Lab

MEDIA = Queue("media")


@workflow(name="says its version")
async def versioned() -> str:
    return "done"


async def bare(lab: Lab, workflow_id: str) -> None:
    """A workflow without a version, as clients of other SDKs enqueue it."""
    await lab.backdoor.run(
        "INSERT INTO workflow_status (workflow_uuid, status, name, queue_name, serialization,"
        " created_at) VALUES (?, 'ENQUEUED', 'says its version', 'media', 'portable_json', 1)",
        workflow_id,
    )
    await lab.backdoor.run(
        "INSERT INTO workflow_input (workflow_uuid, inputs) VALUES (?, ?)",
        workflow_id,
        '{"positionalArgs":[],"namedArgs":{}}',
    )


async def test_what_bears_no_version_follows_the_latest(shared_lab: Lab) -> None:
    lab = shared_lab
    await lab.start(versioned, version="v1", queues=[MEDIA])
    newer = await lab.start(versioned, version="v2")
    assert [row.name for row in await newer.versions.list()] == ["v2", "v1"]
    await bare(lab, "first")
    assert (await lab.until("first"))["application_version"] == "v2"
    await newer.versions.promote("v1")
    await bare(lab, "second")
    assert (await lab.until("second"))["application_version"] == "v1"
    latest = await newer.versions.latest()
    assert latest is not None
    assert latest.name == "v1"


async def test_a_call_may_name_any_registered_version(shared_lab: Lab) -> None:
    lab = shared_lab
    old = await lab.start(versioned, version="v1", queues=[MEDIA])
    newer = await lab.start(versioned, version="v2")
    options = {"queue": MEDIA, "engine": newer}
    handle = await versioned.options(version="v1", **options).start()
    assert await handle.result() == "done"
    assert (await lab.status(handle.workflow_id))["application_version"] == "v1"
    with pytest.raises(UnknownVersion, match="no version 'v3'"):
        await versioned.options(version="v3", **options).start()
    await old.versions.register("v3")
    waiting = await versioned.options(version="v3", **options).start()
    assert (await waiting.status()).state == "ENQUEUED"


async def test_a_client_promotes_and_registers_nothing(shared_lab: Lab) -> None:
    await shared_lab.start(versioned, version="v1")
    await shared_lab.start(versioned, version="v2")
    async with Client(shared_lab.url) as client:
        assert [row.name for row in await client.versions.list()] == ["v2", "v1"]
        assert (await client.versions.promote("v1")).name == "v1"
        assert [row.name for row in await client.versions.list()] == ["v1", "v2"]


async def test_what_cannot_be_promoted_is_refused(lab: Lab) -> None:
    engine = await lab.start(versioned, version="v1")
    assert await engine.versions.latest() is not None
    with pytest.raises(UnknownVersion) as caught:
        await engine.versions.promote("V1")
    assert (caught.value.version, caught.value.application) == ("V1", "app")
    await lab.backdoor.run("UPDATE application_versions SET application_name = 'other'")
    for refused in (engine.versions.promote("v1"), engine.versions.register("v1")):
        with pytest.raises(VersionOwnedByAnother):
            await refused
    assert await engine.versions.latest() is None
    row = await engine.versions.promote("v1", application="other")
    assert row.application_name == "other"
    for wrong in ("", " ", "a\x00b", 1):
        with pytest.raises(InvalidArgument):
            await engine.versions.promote(wrong)  # type: ignore[arg-type]
