"""Forks and imports whose answer got lost: given again, they find what was done."""

import pytest

from perdure.errors import DatabaseUnavailable
from perdure.model.management import Delete, Fork, ForkItem, Import
from tests.contract.test_unknown_outcome import CUT, proxy, site
from tests.support import rows
from tests.support.lives import everything, lived
from tests.support.proxy import FaultProxy
from tests.support.store import Process, Site

__all__ = ["proxy", "site"]


@CUT
async def test_a_fork(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“not if a fork of that source stands under it, from a try before: that is left as it is”."""
    source = await lived(me)
    command = Fork(tuple(ForkItem(source.workflow_id, rows.wid(each), 6) for each in ("a", "b")))
    fault = proxy.cut_answer("COMMIT;") if committed else proxy.cut_request("COMMIT;")
    with pytest.raises(DatabaseUnavailable):
        await me.store.manage(command)
    assert fault.fired.is_set()
    assert await site.exists(rows.wid("a")) is committed
    assert (await me.managed(command)).ids == ("a", "b")
    assert [len(await site.steps(rows.wid(each))) for each in ("a", "b")] == [5, 5]


@CUT
async def test_an_import(site: Site, me: Process, proxy: FaultProxy, committed: bool) -> None:
    """“not if it bears the creator, from a try before: that is left as it is”."""
    run = await lived(me)
    before = await everything(site, run.workflow_id)
    archives = await me.store.export_workflows([run.workflow_id])
    await me.managed(Delete((run.workflow_id,)))
    command = Import(tuple(archives), rows.token())
    fault = proxy.cut_answer("COMMIT;") if committed else proxy.cut_request("COMMIT;")
    with pytest.raises(DatabaseUnavailable):
        await me.store.manage(command)
    assert fault.fired.is_set()
    assert await site.exists(run.workflow_id) is committed
    assert (await me.managed(command)).ids == (run.workflow_id,)
    assert len(await site.steps(run.workflow_id)) == len(before[1])
