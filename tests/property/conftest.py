"""Databases for the properties of stores."""

from tests.support.database_fixtures import (
    memory_database,
    postgres_database,
    postgres_template,
    sqlite_database,
    sqlite_template,
)

__all__ = [
    "memory_database",
    "postgres_database",
    "postgres_template",
    "sqlite_database",
    "sqlite_template",
]
