"""Settings of an engine: given in code, else in the environment, else a stated default."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from perdure.errors import ConfigurationError
from perdure.logic.durations import Duration, seconds_of
from perdure.logic.retention import Names, Policy, States, policy_of
from perdure.model import wire

DEFAULT_NAME = "app"
MEMORY_URL = "memory:"

APPLICATION_NAMES = "an application's name is 3 to 256 lower-case letters, digits, '-' and '_'"
"""What names of applications are."""

_NAME = re.compile(r"[a-z0-9_-]{3,256}")


def is_application_name(name: str) -> bool:
    """Whether an application may be called that."""
    return name == DEFAULT_NAME or _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which ended workflows an engine removes by itself, and how often it looks.

    Those that ended longer ago than `older_than` and are not among the `keep` newest; only in one
    of `states` and of one of `names`, if such are given. See `Workflows.purge`.
    """

    older_than: Duration | None = None
    keep: int | None = None
    states: States = None
    names: Names = None
    every: Duration = 3600.0

    def __post_init__(self) -> None:
        if self.policy and self.every_s < _SHORTEST_PERIOD_S:
            raise ConfigurationError(
                f"every={self.every!r}: it must be at least {_SHORTEST_PERIOD_S:g} s"
            )

    @property
    def policy(self) -> Policy:
        """What it removes; raises `ConfigurationError` for a setting that cannot work."""
        return policy_of(
            self.older_than, self.keep, self.states, self.names, error=ConfigurationError
        )

    @property
    def every_s(self) -> float:
        """How often it looks, in seconds."""
        return seconds_of(self.every, "every", error=ConfigurationError)


_SHORTEST_PERIOD_S = 1.0
_TEXTS = ("url", "name", "version", "executor_id", "application_id", "schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything an engine is told. Durations are seconds or timedelta.

    `name` is the application: workflows, versions and queues of one database belong to one. The
    default `version` is a constant made from the name, so that a redeploy goes on with the work of
    the one before; set it to keep code that is not replay-compatible apart. `heartbeat` is how
    often a process shows that it lives, `lease` how long it counts as alive without; `stall` how
    long its event loop may be blocked before it stops showing. `grace` is how long a stop waits
    for running workflows. `listen` are the names of the queues it serves, None for all of them, and
    `max_running` is up to how many workflows it takes from queues at a time; what is started
    without a queue is not limited. Without `retention` what has ended stays for ever.
    """

    url: str
    name: str = DEFAULT_NAME
    version: str
    executor_id: str = "local"
    application_id: str = ""
    schema: str = wire.DEFAULT_SCHEMA
    migrate: bool = True
    unpickle: bool = False
    max_value_bytes: int = 64 * 1024 * 1024
    pool_size: int = 5
    threads: int = 64
    listen: tuple[str, ...] | None = None
    max_running: int = 1000
    heartbeat: Duration = 1.0
    lease: Duration = 15.0
    stall: Duration = 60.0
    grace: Duration = 10.0
    direct_url: str | None = None
    retention: Retention | None = None

    def __post_init__(self) -> None:
        self._check_texts()
        if not self.url:
            raise ConfigurationError(
                "no database: pass Engine('sqlite:///file.db' or 'postgresql://…'), or set "
                f"{wire.DATABASE_URL_ENV}"
            )
        if not is_application_name(self.name):
            raise ConfigurationError(f"name={self.name!r}: {APPLICATION_NAMES}")
        if not self.version.strip():
            raise ConfigurationError(f"version={self.version!r}: give the version a name")
        if not self.executor_id or "/" in self.executor_id:
            raise ConfigurationError(
                f"executor_id={self.executor_id!r}: it must not be empty nor contain '/'"
            )
        if not self.schema:
            raise ConfigurationError("schema='': name the schema of the system tables")
        for queue in self.listen or ():
            if not isinstance(queue, str) or not queue.strip():
                raise ConfigurationError(f"listen: {queue!r} is no name of a queue")
        self._check_numbers()

    def _check_texts(self) -> None:
        for setting in _TEXTS:
            value = getattr(self, setting)
            if not isinstance(value, str) or "\x00" in value:
                raise ConfigurationError(f"{setting}={value!r}: it must be a text without a NUL")

    def _check_numbers(self) -> None:
        for setting in ("max_value_bytes", "pool_size", "threads", "max_running"):
            value = getattr(self, setting)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{setting}={value!r}: it must be a whole number above 0")
        refused = ConfigurationError
        heartbeat = seconds_of(self.heartbeat, "heartbeat", zero=False, error=refused)
        lease = seconds_of(self.lease, "lease", zero=False, error=refused)
        seconds_of(self.stall, "stall", zero=False, error=refused)
        seconds_of(self.grace, "grace", error=refused)
        # Three times 0.1 is a little more than 0.3.
        if lease * 1.000001 < 3 * heartbeat:
            raise ConfigurationError(
                f"lease={lease:g} s must be at least three heartbeats of {heartbeat:g} s"
            )


def from_environment(given: Mapping[str, object], environ: Mapping[str, str]) -> EngineConfig:
    """The config of what was given in code, completed from the environment.

    An empty variable counts as unset. What is given in code wins.
    """
    settings = {key: value for key, value in given.items() if value is not None}
    for setting, variable in _VARIABLES.items():
        if setting not in settings and environ.get(variable):
            settings[setting] = environ[variable]
    settings.setdefault("url", "")
    settings.setdefault("version", f"{settings.get('name', DEFAULT_NAME)}@default")
    return EngineConfig(**settings)  # type: ignore[arg-type]


_VARIABLES = {
    "url": wire.DATABASE_URL_ENV,
    "version": wire.APP_VERSION_ENV,
    "executor_id": wire.EXECUTOR_ID_ENV,
    "application_id": wire.APP_ID_ENV,
}
