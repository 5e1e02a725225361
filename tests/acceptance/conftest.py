"""Engines for the tests of this folder, and the databases they stand on."""

from tests.support.database_fixtures import (
    memory_database,
    postgres_database,
    postgres_template,
    sqlite_database,
    sqlite_template,
)
from tests.support.engines import lab, memory_lab, postgres_lab, shared_lab

__all__ = [
    "lab",
    "memory_database",
    "memory_lab",
    "postgres_database",
    "postgres_lab",
    "postgres_template",
    "shared_lab",
    "sqlite_database",
    "sqlite_template",
]
