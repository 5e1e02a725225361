"""Opening and closing the store, and the schema it stands on."""

from perdure.ports.capabilities import Capabilities
from perdure.ports.store.lifecycle import SchemaReport
from perdure.store.postgres import schema
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.failures import TRANSLATING

_MAX_BATCH = 1000


class Lifecycle(Concern):
    """`StoreLifecycle`."""

    @property
    def capabilities(self) -> Capabilities:
        """See `perdure.ports.store.StoreLifecycle.capabilities`."""
        return Capabilities(
            listen=self._database.settings.has_sessions,
            parallel_writes=True,
            max_batch=_MAX_BATCH,
        )

    async def open(self) -> None:
        """See `perdure.ports.store.StoreLifecycle.open`."""
        await self._database.open()

    async def close(self) -> None:
        """See `perdure.ports.store.StoreLifecycle.close`."""
        await self._database.close()

    async def migrate(self) -> SchemaReport:
        """See `perdure.ports.store.StoreLifecycle.migrate`."""
        with TRANSLATING:
            return await schema.migrate(self._database.connect_plainly, self._schema)

    async def plan_migration(self) -> SchemaReport:
        """See `perdure.ports.store.StoreLifecycle.plan_migration`."""
        with TRANSLATING:
            return await schema.plan(self._database.connect_plainly, self._schema)

    async def check_schema(self) -> None:
        """See `perdure.ports.store.StoreLifecycle.check_schema`."""
        with TRANSLATING:
            await schema.check(self._database.connect_plainly, self._schema)

    @property
    def _schema(self) -> str:
        return self._database.settings.schema
