"""The Postgres store: all concerns on one database."""

from perdure.ports.clock import Clock
from perdure.store.postgres.claims import Claims
from perdure.store.postgres.concern import Access
from perdure.store.postgres.database import Database
from perdure.store.postgres.endings import Endings
from perdure.store.postgres.hints import Hints
from perdure.store.postgres.leases import Leases
from perdure.store.postgres.lifecycle import Lifecycle
from perdure.store.postgres.queues import Queues
from perdure.store.postgres.reads import Reads
from perdure.store.postgres.settings import PostgresSettings
from perdure.store.postgres.shared_claims import SharedClaims
from perdure.store.postgres.starts import Starts
from perdure.store.postgres.steps import Steps
from perdure.store.postgres.sweeps import Sweeps
from perdure.store.postgres.versions import Versions


class Runs(Starts, Claims, SharedClaims, Sweeps, Endings, Steps):
    """Everything about the life of runs."""


class PostgresStore(Lifecycle, Runs, Queues, Leases, Hints, Reads, Versions):
    """A system database on a Postgres server."""

    def __init__(self, settings: PostgresSettings, clock: Clock) -> None:
        """Name the database; `ConfigurationError` for a schema name that cannot be one."""
        super().__init__(
            Access(Database(settings, clock), settings.application_name, settings.application_id)
        )
