"""Fixtures that give a test its database, and the one Postgres server of a run.

The server starts when the first test asks for it. Under xdist the controller owns it and hands
its DSN to the workers. Where no server can be had, tests that need one fail; they never skip.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.support.postgres import VARIABLE, Databases, PostgresServer, scratch
from tests.support.postgres_binaries import NoPostgres
from tests.support.standing import StandingConnection

# A shell starts what runs in its background deaf to Ctrl-C, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where `tmp_path` lies. In memory no commit of SQLite waits for a disk, which it would for most of
# a test's time; against everything but a power failure that is as good.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(scratch()))

# A shared machine's hiccup is no failure of a property; a gate must give one verdict per commit.
# Explaining a failure traces every line of every example, which costs more than all the rest.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("local", deadline=None, phases=_PHASES)
settings.register_profile("ci", deadline=None, derandomize=True, phases=_PHASES)
settings.load_profile("ci" if os.environ.get("CI") else "local")


class RunPostgres:
    """The server of this test run, started at first use, or the one the environment names."""

    def __init__(self, dsn: str | None = None, error: str | None = None) -> None:
        self._dsn = dsn
        self._error = error
        self._server: PostgresServer | None = None

    def dsn(self) -> str:
        if self._error:
            raise NoPostgres(self._error)
        if self._dsn is None:
            try:
                self._server = PostgresServer()
                # It has no TLS: not to ask spares each of many thousand sessions the preparation.
                self._dsn = f"{self._server.start().dsn}?sslmode=disable"
            except NoPostgres as error:
                self._error = str(error)
                raise
        return self._dsn

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


_RUN_POSTGRES = pytest.StashKey[RunPostgres]()


def pytest_configure(config: pytest.Config) -> None:
    given: dict[str, str | None] = {"dsn": os.environ.get(VARIABLE)}
    if hasattr(config, "workerinput"):
        given = config.workerinput["run_postgres"]
    config.stash[_RUN_POSTGRES] = RunPostgres(**given)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: in the controller, before a worker starts."""
    given: dict[str, str] = {}
    try:
        given["dsn"] = node.config.stash[_RUN_POSTGRES].dsn()
    except NoPostgres as error:
        given["error"] = str(error)
    node.workerinput["run_postgres"] = given


def pytest_unconfigure(config: pytest.Config) -> None:
    run_postgres = config.stash.get(_RUN_POSTGRES, None)
    if run_postgres is not None:
        run_postgres.close()


_POSTGRES_FIXTURES = {"postgres_databases", "postgres_url", "own_postgres"}
_INSTALLED_FIXTURES = {"dbos_python", "typescript_sdk"}
_INSTALL_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs a Postgres server, so that `-m "not postgres"` runs without one.

    Gives time to what needs another SDK: the first test that wants one installs it.
    """
    for item in items:
        chosen = getattr(item, "callspec", None)
        values = list(chosen.params.values()) if chosen is not None else []
        fixtures = getattr(item, "fixturenames", ())
        if "postgres" in values or _POSTGRES_FIXTURES.intersection(fixtures):
            item.add_marker(pytest.mark.postgres)
        if _INSTALLED_FIXTURES.intersection(fixtures):
            item.add_marker(pytest.mark.timeout(_INSTALL_S))


@pytest.fixture(scope="session")
def postgres_databases(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """Makes and drops databases on the run's server, for tests that need several."""
    dsn = request.config.stash[_RUN_POSTGRES].dsn()
    standing = StandingConnection(dsn)
    yield Databases(dsn, standing)
    standing.close()


@pytest.fixture
async def postgres_url(postgres_databases: Databases) -> AsyncIterator[str]:
    """A fresh, empty Postgres database."""
    async with postgres_databases.fresh() as url:
        yield url


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A running server of the test's own, which it may stop and start again."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite database in a file that does not exist yet."""
    return f"sqlite:///{tmp_path}/perdure.db"


@pytest.fixture(params=["sqlite", "memory", "postgres"])
async def database_url(request: pytest.FixtureRequest, sqlite_url: str) -> AsyncIterator[str]:
    """A fresh, empty database of each kind of store; choose with `-k sqlite` and so on."""
    async with _fresh(request, sqlite_url) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
async def shared_database_url(
    request: pytest.FixtureRequest, sqlite_url: str
) -> AsyncIterator[str]:
    """The same, of each store that several processes can share and that outlives them."""
    async with _fresh(request, sqlite_url) as url:
        yield url


@asynccontextmanager
async def _fresh(request: pytest.FixtureRequest, sqlite_url: str) -> AsyncIterator[str]:
    if request.param == "postgres":
        databases: Databases = request.getfixturevalue("postgres_databases")
        async with databases.fresh() as url:
            yield url
    else:
        yield {"sqlite": sqlite_url, "memory": "memory:"}[request.param]
