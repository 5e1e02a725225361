"""A private, real Postgres server for the suite, and fresh databases on it.

`PostgresServer` starts one on a free port of the loopback and can stop and start it again on the
same port. It is owned by a keeper process (`postgres_keeper.py`) that ends it when this process
ends, however it ends: nothing is left behind, also after SIGKILL.

As a program, `python -m tests.support.postgres COMMAND...` runs a command with
`PERDURE_TEST_POSTGRES` pointing at a private server; without a command it prints the DSN and
serves until its input ends. Its data lies on disk, so that what is measured on it is honest.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.support.postgres_binaries import NoPostgres, find_binaries
from tests.support.standing import StandingConnection

VARIABLE = "PERDURE_TEST_POSTGRES"
_ROOMY_BYTES = 2 << 30
_PATIENCE_S = 30.0
StopMode = Literal["smart", "fast", "immediate", "kill"]

_KEEPER = Path(__file__).with_name("postgres_keeper.py")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "500",
    "shared_buffers": "64MB",
    "timezone": "UTC",
}


class Databases:
    """Makes and drops databases on the server of one DSN, by a session of its own for each unless
    there is one that stands."""

    def __init__(self, dsn: str, standing: StandingConnection | None = None) -> None:
        self.dsn = dsn
        self._standing = standing

    def url(self, database: str) -> str:
        """The DSN of another database of the same server."""
        return urlunsplit(urlsplit(self.dsn)._replace(path=f"/{database}"))

    async def create(self, *, template: str = "template0") -> str:
        """Creates a database under a name nobody else has, and returns its DSN."""
        name = f"perdure_test_{secrets.token_hex(6)}"
        await self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    async def drop(self, url: str) -> None:
        """Drops a database made by `create`, ending whatever is connected to it."""
        name = urlsplit(url).path.lstrip("/")
        await self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        """A database that exists for the length of the block."""
        url = await self.create()
        try:
            yield url
        finally:
            await self.drop(url)

    async def _execute(self, statement: str) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                await self._try(statement)
            except asyncpg.ObjectInUseError:
                # The server waits five seconds for sessions that are ending to be gone.
                if time.monotonic() > end_s:
                    raise
            else:
                return

    async def _try(self, statement: str) -> None:
        if self._standing is not None:
            await self._standing.arun(statement)
            return
        connection = await asyncpg.connect(self.dsn, timeout=30)
        try:
            await connection.execute(statement, timeout=60)
        finally:
            await connection.close()


class PostgresServer:
    """One private server. `start`, `stop` and `close` block; call them in a thread if a loop runs.

    `settings` override the server's parameters, for example `{"fsync": "off"}`. The data lies in
    memory where the machine offers it, which makes a new database ten times cheaper and is as
    good as a disk against everything but a power failure; `directory` puts it elsewhere.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, directory: Path | None = None
    ) -> None:
        binaries = find_binaries()
        self._password = secrets.token_hex(8)
        self._lock = threading.Lock()
        self.root = Path(tempfile.mkdtemp(prefix="perdure-postgres-", dir=directory or scratch()))
        setup = {
            "root": str(self.root),
            "binaries": str(binaries),
            "password": self._password,
            "settings": {**_SETTINGS, **(settings or {})},
        }
        # A session of its own: a Ctrl-C at the terminal must not reach the server.
        self.keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), json.dumps(setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.port = 0
        self.server_pid = 0

    @property
    def dsn(self) -> str:
        """The DSN of the server's own database, as a superuser; the same after each start."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/postgres"

    @property
    def databases(self) -> Databases:
        return Databases(self.dsn)

    def start(self) -> Self:
        """Returns when the server takes connections; nothing happens if it runs already."""
        answer = self._ask({"do": "start"})
        self.port, self.server_pid = answer["port"], answer["pid"]
        return self

    def stop(self, mode: StopMode = "immediate") -> None:
        """Returns when the server has ended. `immediate` cuts connections without a checkpoint;
        `kill` ends it as a power failure would; `fast` is an orderly shutdown."""
        self._ask({"do": "stop", "mode": mode})

    def close(self) -> None:
        """Stops the server and deletes its directory."""
        if self.keeper.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.keeper.stdin.close()
        self.keeper.wait()
        if self.keeper.stdout is not None:
            self.keeper.stdout.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self.keeper.stdin is not None
        assert self.keeper.stdout is not None
        line = b""
        with self._lock, contextlib.suppress(BrokenPipeError):
            self.keeper.stdin.write(json.dumps(command).encode() + b"\n")
            self.keeper.stdin.flush()
            line = self.keeper.stdout.readline()
        if not line:
            raise NoPostgres("the server's keeper process ended unexpectedly")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise NoPostgres(answer["error"])
        return answer


def scratch() -> Path:
    """The memory file system if it is roomy, else a temporary directory on disk."""
    memory = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a private directory in it
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    return memory if usable and shutil.disk_usage(memory).free >= _ROOMY_BYTES else disk()


def disk() -> Path:
    """A temporary directory on disk that an unprivileged server can reach when we are root."""
    chosen = Path(tempfile.gettempdir())
    hidden = os.geteuid() == 0 and any(
        not parent.stat().st_mode & 0o001 for parent in (chosen, *chosen.parents)
    )
    return Path("/tmp") if hidden else chosen  # noqa: S108 - as above


def main() -> int:
    with PostgresServer(directory=disk()) as server:
        if len(sys.argv) == 1:
            print(server.dsn, flush=True)
            sys.stdin.read()
            return 0
        environment = {**os.environ, VARIABLE: server.dsn}
        return subprocess.run(sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
