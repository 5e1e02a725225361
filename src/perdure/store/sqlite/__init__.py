"""The store on SQLite: one thread that writes in groups, a few that read.

The standard library's driver is known here and nowhere else. Statements live in `sql/`; the few
that this store has and the Postgres store has not, or the other way round, come from SQLite having
neither arrays nor statements that write several tables.
"""

from perdure.store.sqlite.settings import SqliteSettings
from perdure.store.sqlite.store import SqliteStore

__all__ = ["SqliteSettings", "SqliteStore"]
