"""The SQLite store: all concerns on one database."""

from perdure.ports.clock import Clock
from perdure.store.sql import Queries
from perdure.store.sqlite.applications import Applications
from perdure.store.sqlite.claims import Claims
from perdure.store.sqlite.concern import Access
from perdure.store.sqlite.database import Database, FileDatabase, MemoryDatabase
from perdure.store.sqlite.endings import Endings
from perdure.store.sqlite.events import Events
from perdure.store.sqlite.exporting import Exports
from perdure.store.sqlite.hints import Hints
from perdure.store.sqlite.leases import Leases
from perdure.store.sqlite.lifecycle import Lifecycle
from perdure.store.sqlite.listing import Listing
from perdure.store.sqlite.location import locate
from perdure.store.sqlite.management import Management
from perdure.store.sqlite.messages import Messages
from perdure.store.sqlite.queues import Queues
from perdure.store.sqlite.reads import Reads
from perdure.store.sqlite.retention import Retention
from perdure.store.sqlite.settings import SqliteSettings
from perdure.store.sqlite.shared_claims import SharedClaims
from perdure.store.sqlite.starts import Starts
from perdure.store.sqlite.steps import Steps
from perdure.store.sqlite.streams import Streams
from perdure.store.sqlite.sweeps import Sweeps
from perdure.store.sqlite.upkeep import Upkeep
from perdure.store.sqlite.versions import Versions


class Runs(Starts, Claims, SharedClaims, Sweeps, Endings, Steps):
    """Everything about the life of runs."""


class Talk(Messages, Events, Streams):
    """Everything that workflows say."""


class Operations(Applications, Management, Exports, Retention, Queues, Versions, Upkeep):
    """Everything that is done from outside of runs."""


class SqliteStore(Lifecycle, Runs, Talk, Operations, Leases, Hints, Reads, Listing):
    """A system database in a file, or in memory for this object alone."""

    def __init__(
        self,
        url: str,
        *,
        application_name: str | None,
        clock: Clock,
        application_id: str = "",
        settings: SqliteSettings | None = None,
    ) -> None:
        """Name the database; `ConfigurationError` for a URL that names none."""
        path, settings = locate(url), settings or SqliteSettings()
        database: Database
        if path is None:
            database = MemoryDatabase(clock, settings)
        else:
            database = FileDatabase(path, clock, settings)
        super().__init__(
            Access(
                path=path,
                database=database,
                queries=Queries("perdure.store.sqlite"),
                application=application_name,
                application_id=application_id,
                clock=clock,
                settings=settings,
            )
        )
