"""The composition root: the only place that knows which stores there are."""

from perdure.config import MEMORY_URL, EngineConfig
from perdure.errors import ConfigurationError
from perdure.ports.clock import Clock
from perdure.ports.store import Store


def build_store(config: EngineConfig, clock: Clock, *, nameless: bool = False) -> Store:
    """The store for the config's URL, not yet opened; drivers are imported only when needed.

    A nameless one is used in no application's name.
    """
    url, application = config.url, None if nameless else config.name
    if url == MEMORY_URL or url.startswith("sqlite:"):
        return _sqlite(config, clock, application)
    if url.startswith(("postgresql://", "postgres://")):
        return _postgres(config, clock, application)
    scheme = url.split(":", 1)[0]
    raise ConfigurationError(
        f"no database of the kind {scheme!r} is known; use postgresql://user@host/database, "
        "sqlite:///file.db or memory:"
    )


def _sqlite(config: EngineConfig, clock: Clock, application: str | None) -> Store:
    from perdure.store.sqlite import SqliteStore  # noqa: PLC0415 - only who uses it pays for it

    return SqliteStore(
        config.url,
        application_name=application,
        application_id=config.application_id,
        clock=clock,
    )


def _postgres(config: EngineConfig, clock: Clock, application: str | None) -> Store:
    from perdure.store.postgres import (  # noqa: PLC0415 - only who uses it pays for it
        PostgresSettings,
        PostgresStore,
    )

    return PostgresStore(
        PostgresSettings(
            url=config.url,
            direct_url=config.direct_url,
            schema=config.schema,
            application_name=application,
            application_id=config.application_id,
            pool_size=config.pool_size,
        ),
        clock,
    )
