"""`VersionStore`: the registry of application versions."""

import asyncio

import pytest

from perdure.errors import VersionOwnedByAnother
from perdure.model.version import VersionRow
from tests.support import rows
from tests.support.backdoor import Row
from tests.support.store import Process, Site


async def versions(site: Site) -> list[Row]:
    """Every registered version, oldest first."""
    return await site.backdoor.rows(
        "SELECT * FROM application_versions ORDER BY version_timestamp, version_name"
    )


async def add(site: Site, name: str, application: str | None, timestamp: int = 5) -> None:
    """Register a version as another program does."""
    await site.insert(
        "application_versions",
        version_id=f"id-{name}",
        version_name=name,
        version_timestamp=timestamp,
        created_at=timestamp,
        application_name=application,
    )


async def listed(process: Process) -> list[str]:
    """The names of the versions, the latest first."""
    return [row.name for row in await process.store.versions()]


async def test_a_new_version_is_inserted(site: Site, me: Process) -> None:
    """“Claim an unclaimed row of that name, else insert it”."""
    before = await me.store.now_ms()
    await me.store.register_version("v1")
    after = await me.store.now_ms()
    (row,) = await versions(site)
    assert (row["version_name"], row["application_name"]) == ("v1", "app")
    assert row["version_id"]
    assert before <= row["version_timestamp"] <= after
    assert before <= row["created_at"] <= after
    (shown,) = await me.store.versions()
    assert shown == await me.store.register_version("v1")
    assert shown == VersionRow(
        "v1", row["version_id"], "app", row["version_timestamp"], row["created_at"]
    )


async def test_a_known_version_keeps_its_time(site: Site, me: Process) -> None:
    """“a known version keeps its time”: rolling back does not make the old version the latest."""
    await me.store.register_version("v1")
    before = await versions(site)
    site.clock.advance(60_000)
    await me.store.register_version("v1")
    assert await versions(site) == before


async def test_an_unclaimed_version_is_claimed(site: Site, me: Process) -> None:
    """“Claim an unclaimed row of that name”: with the time it has."""
    await add(site, "v1", None)
    await me.store.register_version("v1")
    (row,) = await versions(site)
    assert (row["version_id"], row["application_name"]) == ("id-v1", "app")
    assert (row["version_timestamp"], row["created_at"]) == (5, 5)


async def test_a_version_of_another_application_is_refused(site: Site, me: Process) -> None:
    """“Raises `VersionOwnedByAnother` naming the holder if another application owns the name”."""
    await add(site, "v1", "other")
    before = await versions(site)
    with pytest.raises(VersionOwnedByAnother) as caught:
        await me.store.register_version("v1")
    assert (caught.value.version, caught.value.holder) == ("v1", "other")
    assert "'other'" in str(caught.value)
    assert await versions(site) == before


@pytest.mark.parametrize("name", ["", "o'brien::%_", "☃😀", "v" * 300])
async def test_any_text_is_a_version(site: Site, me: Process, name: str) -> None:
    """“Rows of `application_versions`”: the name is a text."""
    await me.store.register_version(name)
    await me.store.register_version(name)
    assert [row["version_name"] for row in await versions(site)] == [name]


async def test_many_processes_register_one_version_once(site: Site, me: Process) -> None:
    """“Claim an unclaimed row of that name, else insert it”: at once, and again and again."""
    stores = [me.store, *[await site.store() for _ in range(5)]]
    names = [f"v{number}" for number in range(60)]
    for name in names:
        await asyncio.gather(*(store.register_version(name) for store in stores))
    assert sorted(row["version_name"] for row in await versions(site)) == sorted(names)


async def test_two_applications_race_for_one_name(site: Site, me: Process) -> None:
    """“Raises `VersionOwnedByAnother` naming the holder if another application owns the name”."""
    if site.kind == "memory":
        await add(site, "race", "other")
        with pytest.raises(VersionOwnedByAnother):
            await me.store.register_version("race")
        return
    rival = await site.store("other")
    for number in range(10):
        name = f"race-{number}"
        results = await asyncio.gather(
            me.store.register_version(name), rival.register_version(name), return_exceptions=True
        )
        refused = [result for result in results if isinstance(result, BaseException)]
        assert [type(error) for error in refused] == [VersionOwnedByAnother]
        (row,) = [row for row in await versions(site) if row["version_name"] == name]
        winner = "app" if isinstance(results[0], VersionRow) else "other"
        assert row["application_name"] == winner


async def test_versions_are_listed_the_latest_first(site: Site, me: Process) -> None:
    """“The registered versions of this application or of none, the latest first”."""
    assert await listed(me) == []
    await add(site, "old", "app", 5)
    await add(site, "nobodys", None, 9)
    await add(site, "middle", "app", 7)
    await add(site, "theirs", "other", 8)
    assert await listed(me) == ["nobodys", "middle", "old"]
    await me.store.register_version("new")
    await me.store.register_version("old")
    assert await listed(me) == ["new", "nobodys", "middle", "old"]


async def test_the_first_version_listed_takes_unversioned_rows(site: Site, me: Process) -> None:
    """“the latest first”: the same one for readers and for claims, also where times are equal."""
    for name in ("a", "c", "b"):
        await add(site, name, None, 5)
    latest, *others = await listed(me)
    await site.foreign()
    for version in others:
        assert await me.claim(version=version) == []
    assert len(await me.claim(version=latest)) == 1


async def test_a_promoted_version_is_the_latest(site: Site, me: Process) -> None:
    """“Its time becomes now, and later than that of every other version”."""
    for name in ("v1", "v2"):
        await me.store.register_version(name)
        site.clock.advance(1_000)
    before = await me.store.now_ms()
    row = await me.store.promote_version("v1")
    assert row is not None
    assert before <= row.at_ms <= await me.store.now_ms()
    assert row == (await me.store.versions())[0]
    assert await listed(me) == ["v1", "v2"]
    await me.store.promote_version("v2")
    assert await listed(me) == ["v2", "v1"]


async def test_no_clock_of_another_keeps_a_version_from_being_the_latest(
    site: Site, me: Process
) -> None:
    """“whatever clock they were registered by”: but another application's are its own affair."""
    ahead = await me.store.now_ms() + 3_600_000
    await add(site, "ahead", None, ahead)
    await add(site, "theirs", "other", ahead + 1_000_000)
    await me.store.register_version("v1")
    assert await listed(me) == ["ahead", "v1"]
    row = await me.store.promote_version("v1")
    assert row is not None
    assert row.at_ms == ahead + 1
    assert await listed(me) == ["v1", "ahead"]


async def test_promoting_claims_what_is_nobodys(site: Site, me: Process) -> None:
    """“One that was nobody's becomes the application's”: with the id it has."""
    await add(site, "v1", None)
    row = await me.store.promote_version("v1")
    assert row is not None
    assert (row.version_id, row.application_name, row.created_at_ms) == ("id-v1", "app", 5)


async def test_an_unknown_version_is_not_promoted(site: Site, me: Process) -> None:
    """“None if no version of that name is registered”, and nothing is written."""
    await add(site, "v1", "app")
    assert await me.store.promote_version("v2") is None
    assert [row["version_name"] for row in await versions(site)] == ["v1"]


async def test_a_version_of_another_application_is_promoted_by_its_name(
    site: Site, me: Process
) -> None:
    """“the latest of an application, of this one unless it is named”, else refused."""
    await add(site, "v1", "other")
    await add(site, "v2", "other", 9)
    with pytest.raises(VersionOwnedByAnother) as caught:
        await me.store.promote_version("v1")
    assert caught.value.holder == "other"
    assert (await versions(site))[0]["version_timestamp"] == 5
    row = await me.store.promote_version("v1", "other")
    assert row is not None
    assert (row.application_name, (await versions(site))[-1]["version_name"]) == ("other", "v1")


async def test_unversioned_rows_follow_the_promotion(site: Site, me: Process) -> None:
    """“the latest of an application”: it takes what bears no version, and the others their own."""
    for name in ("v1", "v2"):
        await me.store.register_version(name)
        site.clock.advance(1_000)
    bare = await site.foreign()
    old = await me.waiting(application_version="v1")
    assert [run.workflow_id for run in await me.claim(version="v1")] == [old.workflow_id]
    await me.store.promote_version("v1")
    assert await me.claim(version="v2") == []
    assert [run.workflow_id for run in await me.claim(version="v1")] == [bare]


async def test_what_a_dead_process_ran_waits_for_its_version(site: Site, me: Process) -> None:
    """“the latest of an application”: what was begun under a version goes on under that one."""
    for name in ("v1", "v2"):
        await me.store.register_version(name)
        site.clock.advance(1_000)
    run = await me.running(application_version="v1")
    await site.update(run.workflow_id, status="ENQUEUED", owner_xid=None, queue_name=rows.QUEUE)
    assert await me.claim(version="v2") == []
    await me.store.promote_version("v2")
    assert await me.claim(version="v2") == []
    assert [found.workflow_id for found in await me.claim(version="v1")] == [run.workflow_id]
