"""Who an engine is in the database: its names, its version, and what failed starts leave there."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Engine, workflow
from perdure.errors import NotRegistered, NotRunning, VersionOwnedByAnother
from tests.support.behind import Found
from tests.support.engines import Lab
from tests.support.standing import APPLICATION as STANDING
from tests.support.waiting import eventually


@workflow(name="brief")
async def brief() -> str:
    return "done"


async def versions(lab: Lab) -> Found:
    return await lab.rows("SELECT * FROM application_versions ORDER BY version_name")


async def test_names_and_version_have_stated_defaults(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DBOS__APPVERSION", "DBOS__VMID", "DBOS__APPID"):
        monkeypatch.setenv(variable, "")
    engine = await lab.start(brief)
    await brief.options(id="w")()
    row = await lab.status("w")
    assert (row["application_name"], row["application_version"]) == ("app", "app@default")
    assert row["application_id"] == ""
    assert str(engine.executor_id).startswith("local/boot-")
    (version,) = await versions(lab)
    assert (version["version_name"], version["application_name"]) == ("app@default", "app")


async def test_what_code_leaves_open_the_environment_says(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBOS_SYSTEM_DATABASE_URL", lab.url)
    monkeypatch.setenv("DBOS__APPVERSION", "v9")
    monkeypatch.setenv("DBOS__VMID", "machine-7")
    monkeypatch.setenv("DBOS__APPID", "id-1")
    assert Engine(workflows=[]).config.url == lab.url
    engine = await lab.start(brief, version="v10")
    await brief.options(id="w")()
    row = await lab.status("w")
    assert row["application_version"] == "v10", "what is given in code wins"
    assert row["application_id"] == "id-1"
    assert str(engine.executor_id).startswith("machine-7/boot-")


async def test_a_restart_registers_its_version_once(shared_lab: Lab) -> None:
    """Its time stays, so that rolling back makes an old version no newer than it was."""
    lab = shared_lab
    for version in ("v1", "v2", "v1"):
        engine = await lab.start(brief, version=version)
        await engine.stop()
        lab.clock.leap(60)
    found = await versions(lab)
    assert [row["version_name"] for row in found] == ["v1", "v2"]
    assert found[0]["version_timestamp"] < found[1]["version_timestamp"]


async def test_applications_on_one_database_have_versions_of_their_own(shared_lab: Lab) -> None:
    lab = shared_lab
    await lab.start(brief, name="shop")
    await lab.start(brief, name="bank")
    found = {row["version_name"]: row["application_name"] for row in await versions(lab)}
    assert found == {"shop@default": "shop", "bank@default": "bank"}


async def test_a_version_that_nobody_claimed_becomes_the_first_application_s(
    shared_lab: Lab,
) -> None:
    lab = shared_lab
    await lab.backdoor.run(
        "INSERT INTO application_versions (version_id, version_name, version_timestamp, created_at)"
        " VALUES ('x', 'v1', 5, 5)"
    )
    await lab.start(brief, name="shop", version="v1")
    (row,) = await versions(lab)
    assert (row["application_name"], row["version_timestamp"]) == ("shop", 5)


async def test_what_is_decorated_after_the_start_is_known_at_the_next(shared_lab: Lab) -> None:
    """A registry does not change under a running engine; the refusal says what to do."""
    lab = shared_lab
    engine = await lab.start(brief)

    @workflow(name="late")
    async def late() -> str:
        return "late"

    with pytest.raises(NotRunning, match=r"workflows=\[\.\.\.\]"):
        await late()
    with pytest.raises(NotRegistered, match="before the engine starts"):
        await late.options(engine=engine)()
    await engine.stop()
    await lab.start(brief, late)
    assert await late() == "late"


async def test_failed_starts_leave_no_session_on_the_server(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that is refused after it connected gives its connections up."""
    lab = shared_lab
    holder = await lab.start(brief, name="shop", version="v1")
    await holder.stop()

    async def sessions() -> int:
        if lab.kind != "postgres":
            return 0
        found: list[dict[str, Any]] = await lab.rows(
            "SELECT count(*) AS n FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            f" AND application_name <> '{STANDING}'"
        )
        return int(found[0]["n"])

    async def quiet() -> bool:
        return await sessions() == 0

    await eventually(quiet)
    for _ in range(3):
        with pytest.raises(VersionOwnedByAnother):
            await lab.start(brief, name="bank", version="v1")
        lab.engines.pop()
    await eventually(quiet)
    await lab.start(brief, name="bank")
    assert await brief() == "done"
