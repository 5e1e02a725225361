"""A process that forks and is killed is dead, whatever its child still has of it."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from perdure.model.lease import LockState
from tests.support import rows
from tests.support.process import ChildProcess, alive
from tests.support.store import Site
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork does not exist there")

HOLDER = "tests.support.lease_holder"


async def sessions(site: Site) -> set[int]:
    """Sessions of stores on this database, the backdoor's not among them."""
    found = await site.backdoor.rows(
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'perdure'"
    )
    return {row["pid"] for row in found}


async def test_a_child_keeps_no_session_of_its_killed_parent(site: Site) -> None:
    me = await site.process()
    # One of a store that another test closed may not have ended yet.
    mine = await sessions(site)
    boot = rows.boot_id()
    with ChildProcess("-m", HOLDER, site.database.url, boot, "fork") as parent:
        assert await parent.reaches("held") == "held True"
        child = int((await parent.reaches("forked")).split()[1])
        assert await me.suspicion(boot) is None
        os.kill(parent.pid, signal.SIGKILL)

        async def shows() -> bool:
            seen = await me.suspicion(boot)
            return seen is not None and seen.lock is LockState.FREE

        await eventually(shows, deadline_s=20)
        await eventually(lambda: are_left(site, mine), deadline_s=20)
        assert alive(child)


async def test_a_child_ends_no_session_of_its_parent(site: Site) -> None:
    me = await site.process()
    boot = rows.boot_id()
    with ChildProcess("-m", HOLDER, site.database.url, boot, "fork") as parent:
        child = int((await parent.reaches("forked")).split()[1])
        os.kill(child, signal.SIGKILL)
        before = await renewals(site, boot)

        async def renewed() -> bool:
            return await renewals(site, boot) > before + 1

        await eventually(renewed)
        assert await me.suspicion(boot) is None
        assert parent.running


async def renewals(site: Site, boot: str) -> int:
    (lease,) = [row for row in await site.own("leases") if row["boot_id"] == boot]
    count: int = lease["renewals"]
    return count


async def are_left(site: Site, mine: set[int]) -> bool:
    return await sessions(site) <= mine
