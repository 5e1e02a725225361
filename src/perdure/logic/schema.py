"""What to do about a system schema as it was found, and what to say where nothing can be done.

The shared schema has one recorded version, which other programs raise too. Our own tables have
versions of their own, so that a later release can change them.
"""

import msgspec

from perdure.errors import SchemaError, SchemaMissing, SchemaTooOld
from perdure.model.wire import SCHEMA_VERSION

OLDEST_CONVERGED = 123
"""The oldest shared version we bring up to date, and can run on as it is."""

OWN_VERSION = 3

BOOKKEEPING = "dbos_migrations"

NEEDED_TABLES = frozenset(
    {
        "application_versions",
        "notifications",
        "operation_outputs",
        "queues",
        "streams",
        "workflow_events",
        "workflow_events_history",
        "workflow_input",
        "workflow_output",
        "workflow_schedules",
        "workflow_status",
    }
)
"""The shared tables an engine works with."""

SHARED_TABLES = NEEDED_TABLES | {BOOKKEEPING, "event_dispatch_kv"}
"""Every name of the shared schema: one that is there without a version is somebody else's."""

_MIGRATE = "run `perdure migrate`, or start an Engine with a role that may create it"
_DBOS = "launch an application on dbos 3.4.0 once against this database, which migrates it"


class FoundSchema(msgspec.Struct, frozen=True):
    """A system schema as the catalogue shows it. `where` names it in messages."""

    where: str
    tables: frozenset[str]
    versions: tuple[int, ...]
    own_version: int | None
    sharded: bool = False

    @property
    def version(self) -> int | None:
        """The recorded shared version, or None where there is none."""
        return max(self.versions, default=None)


class SchemaSteps(msgspec.Struct, frozen=True):
    """What brings a database up to date, in this order. False when nothing does.

    `create`: the shared schema from nothing, at our version. `converge` and `own`: the versions of
    the shared schema, and of our own tables, to reach one after the other.
    """

    create: bool
    converge: tuple[int, ...]
    own: tuple[int, ...]

    def __bool__(self) -> bool:
        return self.create or bool(self.converge or self.own)


def schema_steps(found: FoundSchema) -> SchemaSteps:
    """What to do about this database.

    Nothing shared is touched where the recorded version is ours or newer. Raises the `SchemaError`
    that says why the database can be neither created nor converged.
    """
    own = tuple(range((found.own_version or 0) + 1, OWN_VERSION + 1))
    version = found.version
    if version is None:
        _refuse_strangers(found)
        return SchemaSteps(create=True, converge=(), own=own)
    _refuse_unusable(found, version)
    converge = tuple(range(version + 1, SCHEMA_VERSION + 1))
    return SchemaSteps(create=False, converge=converge, own=own)


def refuse_unless_runnable(found: FoundSchema) -> None:
    """Raise the `SchemaError` that says why an engine cannot run on the database as it is."""
    version = found.version
    if version is None:
        _refuse_strangers(found)
        raise SchemaMissing(f"{found.where} holds no system schema: {_MIGRATE}")
    _refuse_unusable(found, version)
    if schema_steps(found).own:
        raise SchemaMissing(
            f"{found.where} holds the system schema, but Perdure's own tables are not there or "
            f"not up to date: {_MIGRATE}"
        )


def _refuse_strangers(found: FoundSchema) -> None:
    strangers = sorted(found.tables - {BOOKKEEPING})
    if not strangers:
        return
    lack = "no row in" if BOOKKEEPING in found.tables else "no table"
    raise SchemaError(
        f"{found.where} holds {', '.join(strangers)} but {lack} {BOOKKEEPING}, so its version is "
        "unknown: tables of another program, or a partial restore. Choose another schema or "
        "database, or restore it completely"
    )


def _refuse_unusable(found: FoundSchema, version: int) -> None:
    if len(found.versions) > 1:
        raise SchemaError(
            f"{found.where} records {len(found.versions)} versions in {BOOKKEEPING} "
            f"({', '.join(map(str, sorted(found.versions)))}), which must be one row: delete the "
            "wrong ones"
        )
    if version < OLDEST_CONVERGED:
        raise SchemaTooOld(
            f"{found.where} is at version {version}, older than {OLDEST_CONVERGED}, the oldest "
            f"that Perdure converges: {_DBOS}"
        )
    if found.sharded:
        raise SchemaError(
            f"{found.where} is one shard of a sharded system (workflow_status has the column "
            "shard_key), which Perdure does not run on: choose another database"
        )
    missing = sorted(NEEDED_TABLES - found.tables)
    if missing:
        raise SchemaError(
            f"{found.where} records version {version} but lacks {', '.join(missing)}: restore it "
            "completely, or choose another schema or database"
        )
