"""How a Postgres store works, as far as a user may choose."""

from dataclasses import dataclass

from perdure.model.wire import DEFAULT_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """Durations are in seconds.

    `pooled` says that `url` leads through a pooler that gives a session to one transaction at a
    time: statements are then prepared anew each time and no session is set up. Lock and LISTEN of
    the heartbeat, and migrations, take `direct_url`, which leads past the pooler; giving one
    implies `pooled`. Without it a pooled store has no liveness lock.
    `pool_size` bounds the connections besides the nine that hot writes and claims keep and two for
    what is looked up by its key.
    `statement_timeout_s` bounds a statement on the server, and a little later also on our side.
    """

    url: str
    application_name: str | None
    application_id: str = ""
    schema: str = DEFAULT_SCHEMA
    direct_url: str | None = None
    pooled: bool = False
    pool_size: int = 5
    statement_timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    session_name: str = "perdure"

    @property
    def through_pooler(self) -> bool:
        """Whether sessions of `url` are shared."""
        return self.pooled or self.direct_url is not None

    @property
    def has_sessions(self) -> bool:
        """Whether a session of our own can be had at all."""
        return self.direct_url is not None or not self.pooled
