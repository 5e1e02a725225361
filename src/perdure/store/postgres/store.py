"""The Postgres store: all concerns on one database."""

from perdure.ports.clock import Clock
from perdure.store.postgres.applications import Applications
from perdure.store.postgres.claims import Claims
from perdure.store.postgres.concern import Access
from perdure.store.postgres.database import Database
from perdure.store.postgres.endings import Endings
from perdure.store.postgres.events import Events
from perdure.store.postgres.exporting import Exports
from perdure.store.postgres.hints import Hints
from perdure.store.postgres.leases import Leases
from perdure.store.postgres.lifecycle import Lifecycle
from perdure.store.postgres.listing import Listing
from perdure.store.postgres.management import Management
from perdure.store.postgres.messages import Messages
from perdure.store.postgres.queues import Queues
from perdure.store.postgres.reads import Reads
from perdure.store.postgres.retention import Retention
from perdure.store.postgres.settings import PostgresSettings
from perdure.store.postgres.shared_claims import SharedClaims
from perdure.store.postgres.starts import Starts
from perdure.store.postgres.steps import Steps
from perdure.store.postgres.streams import Streams
from perdure.store.postgres.sweeps import Sweeps
from perdure.store.postgres.upkeep import Upkeep
from perdure.store.postgres.versions import Versions


class Runs(Starts, Claims, SharedClaims, Sweeps, Endings, Steps):
    """Everything about the life of runs."""


class Talk(Messages, Events, Streams):
    """Everything that workflows say."""


class Operations(Applications, Management, Exports, Retention, Queues, Versions, Upkeep):
    """Everything that is done from outside of runs."""


class PostgresStore(Lifecycle, Runs, Talk, Operations, Leases, Hints, Reads, Listing):
    """A system database on a Postgres server."""

    def __init__(self, settings: PostgresSettings, clock: Clock) -> None:
        """Name the database; `ConfigurationError` for a schema name that cannot be one."""
        super().__init__(
            Access(Database(settings, clock), settings.application_name, settings.application_id)
        )
