"""The heartbeat's link on a file: when it renews, and the lock that speaks for it."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import DatabaseUnavailable
from perdure.model.lease import Beat, LeaseSeen, LockState
from perdure.store.sqlite import SqliteStore, liveness
from perdure.store.sqlite.session import OwnSession
from tests.support import rows
from tests.support.database import MovableClock

# So long that what passes of it by itself, on whatever machine, decides nothing.
PERIOD_MS = 9_000_000


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


class Boot:
    """A process start with its own link."""

    def __init__(self, store: SqliteStore) -> None:
        self.lease = rows.lease(period_ms=PERIOD_MS)
        self.link = store.heartbeat_link()

    async def beat(self) -> Beat:
        return await self.link.beat(self.lease, (rows.QUEUE,), (rows.KEY,))


class Site:
    """A file with a store, and another connection to it."""

    def __init__(self, path: Path) -> None:
        self.clock = MovableClock()
        self.folder = path.with_name("app.db.perdure")
        self.store = SqliteStore(f"sqlite:///{path}", application_name="app", clock=self.clock)
        self.other = sqlite3.connect(path, isolation_level=None)

    def lease(self, boot: Boot) -> dict[str, Any]:
        cursor = self.other.execute(
            "SELECT * FROM perdure_leases WHERE boot_id = ?", (boot.lease.boot_id,)
        )
        (row,) = cursor.fetchall()
        return dict(zip([column[0] for column in cursor.description], row, strict=True))

    def record_lock(self, boot: Boot, path: str | None) -> None:
        self.other.execute(
            "UPDATE perdure_leases SET lock_path = ? WHERE boot_id = ?", (path, boot.lease.boot_id)
        )


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path / "app.db")
    await made.store.migrate()
    await made.store.open()
    yield made
    await made.store.close()
    made.other.close()


@pytest.fixture
async def boot(site: Site) -> AsyncIterator[Boot]:
    made = Boot(site.store)
    assert await made.link.open(made.lease)
    yield made
    await made.link.close()


@pytest.fixture
async def judge(site: Site) -> AsyncIterator[Boot]:
    made = Boot(site.store)
    await made.link.open(made.lease)
    yield made
    await made.link.close()


async def suspicion(judge: Boot, boot: Boot) -> LeaseSeen | None:
    beat = await judge.beat()
    return next((seen for seen in beat.suspects if seen.boot_id == boot.lease.boot_id), None)


async def test_a_beat_renews_when_a_third_of_the_period_has_passed(site: Site, boot: Boot) -> None:
    renewals = []
    for _ in range(9):
        site.clock.advance(PERIOD_MS // 9)
        assert (await boot.beat()).held
        renewals.append(site.lease(boot)["renewals"])
    assert renewals == [0, 0, 1, 1, 1, 2, 2, 2, 3]


async def test_a_clock_set_back_renews(site: Site, boot: Boot) -> None:
    site.clock.advance(-3_600_000)
    assert (await boot.beat()).held
    lease = site.lease(boot)
    assert lease["renewals"] == 1
    assert lease["expires_at"] == lease["renewed_at"] + PERIOD_MS


async def test_a_busy_file_puts_a_renewal_off_while_there_is_time(
    site: Site, boot: Boot, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = OwnSession.write

    def hastily(session: OwnSession, work: Any, _patience_s: float) -> Any:
        return write(session, work, 0.05)

    monkeypatch.setattr(OwnSession, "write", hastily)
    site.clock.advance(PERIOD_MS // 3)
    site.other.execute("BEGIN IMMEDIATE")
    assert (await boot.beat()).held
    site.clock.advance(PERIOD_MS // 3)
    with pytest.raises(DatabaseUnavailable, match="could not be renewed"):
        await boot.beat()
    site.other.execute("ROLLBACK")
    assert site.lease(boot)["renewals"] == 0
    assert (await boot.beat()).held
    assert site.lease(boot)["renewals"] == 1


async def test_a_held_lock_within_its_time_is_no_suspect(
    site: Site, boot: Boot, judge: Boot
) -> None:
    for _ in range(3):
        assert await suspicion(judge, boot) is None
    site.clock.advance(PERIOD_MS + 1)
    seen = await suspicion(judge, boot)
    assert seen is not None
    assert (seen.lock, seen.overdue) == (LockState.HELD, True)


async def test_a_file_that_is_gone_says_nothing(site: Site, boot: Boot, judge: Boot) -> None:
    (site.folder / f"{boot.lease.boot_id}.lock").unlink()
    assert await suspicion(judge, boot) is None
    site.clock.advance(PERIOD_MS + 1)
    seen = await suspicion(judge, boot)
    assert seen is not None
    assert seen.lock is LockState.UNKNOWN


async def test_a_lock_whose_file_is_gone_is_taken_anew(site: Site, boot: Boot, judge: Boot) -> None:
    (site.folder / f"{boot.lease.boot_id}.lock").unlink()
    assert (await boot.beat()).held
    assert liveness.look(site.folder, site.lease(boot)["lock_path"]) is LockState.HELD
    assert await suspicion(judge, boot) is None


@pytest.mark.parametrize("path", [None, "", "../app.db", "../../etc/hostname", "/etc/hostname"])
async def test_a_recorded_path_leads_nowhere_else(
    site: Site, boot: Boot, judge: Boot, path: str | None
) -> None:
    site.record_lock(boot, path)
    site.clock.advance(PERIOD_MS + 1)
    seen = await suspicion(judge, boot)
    assert seen is not None
    assert seen.lock is LockState.UNKNOWN


async def test_without_a_lock_the_lease_alone_counts(
    site: Site, judge: Boot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "not here")

    monkeypatch.setattr(Path, "mkdir", refuse)
    unlocked = Boot(site.store)
    assert await unlocked.link.open(unlocked.lease) is False
    assert site.lease(unlocked)["lock_path"] is None
    assert (await unlocked.beat()).held
    assert await suspicion(judge, unlocked) is None
    await unlocked.link.close()


async def test_a_lock_is_waited_for_while_a_judge_tries_it(site: Site, boot: Boot) -> None:
    name = site.lease(boot)["lock_path"]
    await boot.link.close()
    probe = liveness.take(site.folder, boot.lease.boot_id)
    assert probe is not None
    # Held by another for good, it cannot be had; the lease then names none.
    assert await boot.link.open(boot.lease) is False
    assert site.lease(boot)["lock_path"] is None
    probe.close()
    assert await boot.link.open(boot.lease)
    assert site.lease(boot)["lock_path"] == name


async def test_ending_a_lease_removes_its_file(site: Site, boot: Boot) -> None:
    file = f"{boot.lease.boot_id}.lock"
    assert file in names(site.folder)
    await site.store.end_lease(boot.lease.boot_id)
    await boot.link.close()
    assert file not in names(site.folder)


async def test_a_link_that_is_not_open_says_so(site: Site) -> None:
    with pytest.raises(DatabaseUnavailable, match="not open"):
        await Boot(site.store).beat()


async def test_files_of_nobody_are_swept_up(site: Site, boot: Boot) -> None:
    other = SqliteStore(
        f"sqlite:///{site.folder.with_suffix('')}", application_name="other", clock=site.clock
    )
    await other.open()
    theirs = Boot(other)
    await theirs.link.open(theirs.lease)
    await theirs.link.close()
    (site.folder / "boot-left-behind.lock").touch()
    held = liveness.take(site.folder, rows.boot_id())
    assert held is not None
    third = Boot(site.store)
    await third.link.open(third.lease)
    assert names(site.folder) == {
        "turnstile",
        held.name,
        *(f"{one.lease.boot_id}.lock" for one in (boot, theirs, third)),
    }
    held.close()
    await third.link.close()
    await other.close()
