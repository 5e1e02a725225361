"""Versions and applications as the real dbos and we see and change them."""

from __future__ import annotations

import pytest

from perdure import Client, Engine, Queue, workflow
from tests.compat.conftest import Dbos
from tests.support.engines import Lab

pytestmark = pytest.mark.usefixtures("dbos_can_write")

MAIL = Queue("mail")


@workflow(name="letter")
async def letter(word: str) -> str:
    return word.upper()


async def latest(engine: Engine) -> str | None:
    """The name of the latest version."""
    row = await engine.versions.latest()
    return None if row is None else row.name


async def test_both_see_and_move_the_latest_version(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    await lab.start(letter, version="v1", queues=[MAIL])
    engine = await lab.start(letter, version="v2")
    listed = await dbos.ask("list_application_versions")
    ours = await engine.versions.list()
    assert [
        (each["version_name"], each["version_id"], each["version_timestamp"]) for each in listed
    ] == [(row.name, row.version_id, row.at_ms) for row in ours]
    await dbos.ask("set_latest_application_version", "v1")
    assert await latest(engine) == "v1"
    await engine.versions.promote("v2")
    assert (await dbos.ask("get_latest_application_version"))["version_name"] == "v2"
    bare = await dbos.ask("enqueue", "one", workflow_name="letter", queue_name="mail")
    assert await dbos.ask("result", bare) == "ONE"
    assert (await lab.status(bare))["application_version"] == "v2"


async def test_each_renames_what_the_other_wrote(shared_lab: Lab, dbos: Dbos) -> None:
    lab = shared_lab
    await lab.start(letter, queues=[MAIL])
    await letter.options(id="w")("one")
    await lab.engine.stop()
    moved = await dbos.ask("rename_application", "app", "letters")
    assert (moved["queues"], moved["versions"], moved["workflows"]) == (1, 1, 1)
    async with Client(lab.url, name="letters") as client:
        assert [row.workflow_id for row in await client.workflows.list()] == ["w"]
        # A lease that was ended is no process.
        back = await client.rename_application("letters", "app")
        assert (back.queues, back.versions, back.workflows) == (1, 1, 1)
    listed = await dbos.ask("list_workflows")
    assert [each["workflow_id"] for each in listed] == ["w"]
