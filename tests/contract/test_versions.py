"""`VersionStore`: the registry of application versions."""

import asyncio

import pytest

from perdure.errors import VersionOwnedByAnother
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
        refused = [result for result in results if result is not None]
        assert [type(error) for error in refused] == [VersionOwnedByAnother]
        (row,) = [row for row in await versions(site) if row["version_name"] == name]
        winner = "app" if results[0] is None else "other"
        assert row["application_name"] == winner


async def test_versions_are_listed_the_latest_first(site: Site, me: Process) -> None:
    """“The registered versions of this application or of none, the latest first”."""
    assert await me.store.versions() == []
    await add(site, "old", "app", 5)
    await add(site, "nobodys", None, 9)
    await add(site, "middle", "app", 7)
    await add(site, "theirs", "other", 8)
    assert await me.store.versions() == ["nobodys", "middle", "old"]
    await me.store.register_version("new")
    await me.store.register_version("old")
    assert await me.store.versions() == ["new", "nobodys", "middle", "old"]


async def test_the_first_version_listed_takes_unversioned_rows(site: Site, me: Process) -> None:
    """“the latest first”: the same one for readers and for claims, also where times are equal."""
    for name in ("a", "c", "b"):
        await add(site, name, None, 5)
    latest, *others = await me.store.versions()
    await site.foreign()
    for version in others:
        assert await me.claim(version=version) == []
    assert len(await me.claim(version=latest)) == 1
