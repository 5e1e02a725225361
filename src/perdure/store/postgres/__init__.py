"""The store on Postgres, through asyncpg: a connection for each hot kind of write, and a few more.

The driver is known here and nowhere else. Statements live in `sql/`. A hot write is one statement
over a batch, committed by itself; what stood in its way is looked up by a second one, and only
then.
"""

from perdure.store.postgres.settings import PostgresSettings
from perdure.store.postgres.store import PostgresStore

__all__ = ["PostgresSettings", "PostgresStore"]
