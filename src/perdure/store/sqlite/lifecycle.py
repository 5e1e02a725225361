"""Opening and closing the store, and the schema it stands on."""

from msgspec.structs import replace

from perdure.ports.capabilities import Capabilities
from perdure.ports.store.lifecycle import SchemaReport
from perdure.store.sqlite import schema
from perdure.store.sqlite.concern import Concern

_IN_MEMORY = Capabilities(listen=False, parallel_writes=True, max_batch=1000)
"""Writes of different kinds that arrive together become one transaction, so they should."""

_ON_FILE = replace(_IN_MEMORY, listen=True)


class Lifecycle(Concern):
    """`StoreLifecycle`."""

    @property
    def capabilities(self) -> Capabilities:
        """See `perdure.ports.store.StoreLifecycle.capabilities`."""
        return _IN_MEMORY if self._access.path is None else _ON_FILE

    async def open(self) -> None:
        """See `perdure.ports.store.StoreLifecycle.open`."""
        await self._database.open()

    async def close(self) -> None:
        """See `perdure.ports.store.StoreLifecycle.close`."""
        await self._database.close()

    async def migrate(self) -> SchemaReport:
        """See `perdure.ports.store.StoreLifecycle.migrate`."""
        return await self._database.prepare(lambda c: schema.migrate(c.driver), create=True)

    async def plan_migration(self) -> SchemaReport:
        """See `perdure.ports.store.StoreLifecycle.plan_migration`."""
        return await self._database.prepare(lambda c: schema.plan(c.driver), create=False)

    async def check_schema(self) -> None:
        """See `perdure.ports.store.StoreLifecycle.check_schema`."""
        await self._database.prepare(lambda c: schema.check(c.driver), create=False)
