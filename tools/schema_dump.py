"""Prints what a database's catalogue says about a system schema, as JSON.

    python tools/schema_dump.py postgresql://... [SCHEMA]
    python tools/schema_dump.py sqlite:///path/to/file

Two dumps are equal exactly when the schemas are, however they came about and whatever the schema
is called. Bodies of functions are left out: each writer has its own.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import asyncpg

Facts = dict[str, Any]

_COLUMNS = """
SELECT relation.relname AS "table", attribute.attname AS name,
    row_number() OVER (PARTITION BY relation.oid ORDER BY attribute.attnum) AS position,
    format_type(attribute.atttypid, attribute.atttypmod) AS type,
    NOT attribute.attnotnull AS nullable,
    pg_get_expr(preset.adbin, preset.adrelid) AS "default"
FROM pg_attribute AS attribute
JOIN pg_class AS relation ON relation.oid = attribute.attrelid
LEFT JOIN pg_attrdef AS preset
    ON preset.adrelid = attribute.attrelid AND preset.adnum = attribute.attnum
WHERE relation.relnamespace = $1::text::regnamespace AND relation.relkind IN ('r', 'p')
    AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY 1, 3
"""

_INDEXES = """
SELECT relation.relname AS "table", index.relname AS name, method.amname AS method,
    entry.indisunique AS "unique", entry.indisprimary AS "primary", entry.indisvalid AS valid,
    pg_get_expr(entry.indpred, entry.indrelid) AS predicate,
    ARRAY(
        SELECT pg_get_indexdef(entry.indexrelid, place, true)
            || CASE WHEN (entry.indoption[place - 1] & 1) = 1 THEN ' DESC' ELSE '' END
        FROM generate_series(1, entry.indnkeyatts) AS place ORDER BY place
    ) AS key_columns,
    ARRAY(
        SELECT pg_get_indexdef(entry.indexrelid, place, true)
        FROM generate_series(entry.indnkeyatts + 1, entry.indnatts) AS place ORDER BY place
    ) AS include_columns,
    EXISTS (
        SELECT FROM pg_constraint WHERE conindid = entry.indexrelid AND contype IN ('p', 'u', 'x')
    ) AS backs_constraint,
    regexp_replace(
        pg_get_indexdef(entry.indexrelid, 0, true), ' ON (ONLY )?.* USING ', ' USING '
    ) AS definition
FROM pg_index AS entry
JOIN pg_class AS index ON index.oid = entry.indexrelid
JOIN pg_am AS method ON method.oid = index.relam
JOIN pg_class AS relation ON relation.oid = entry.indrelid
WHERE relation.relnamespace = $1::text::regnamespace
ORDER BY 1, 2
"""

_CONSTRAINTS = """
SELECT relation.relname AS "table", entry.conname AS name,
    CASE entry.contype
        WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' WHEN 'f' THEN 'FOREIGN KEY'
        WHEN 'c' THEN 'CHECK' ELSE entry.contype::text
    END AS type,
    pg_get_constraintdef(entry.oid, true) AS definition
FROM pg_constraint AS entry
JOIN pg_class AS relation ON relation.oid = entry.conrelid
WHERE relation.relnamespace = $1::text::regnamespace AND entry.contype <> 'n'
ORDER BY 1, 2
"""

_TRIGGERS = """
SELECT relation.relname AS "table", entry.tgname AS name,
    pg_get_triggerdef(entry.oid, true) AS definition, entry.tgenabled::text AS enabled
FROM pg_trigger AS entry
JOIN pg_class AS relation ON relation.oid = entry.tgrelid
WHERE relation.relnamespace = $1::text::regnamespace AND NOT entry.tgisinternal
ORDER BY 1, 2
"""

_FUNCTIONS = """
SELECT entry.proname AS name, language.lanname AS language,
    format_type(entry.prorettype, NULL) AS returns, entry.prokind::text AS kind,
    entry.provolatile::text AS volatility, entry.proparallel::text AS parallel,
    entry.prosecdef AS security_definer, entry.proisstrict AS strict,
    entry.proleakproof AS leakproof, entry.procost AS cost, entry.proconfig AS config,
    pg_get_function_identity_arguments(entry.oid) AS identity_arguments,
    pg_get_function_arguments(entry.oid) AS arguments,
    entry.pronargs AS nargs, entry.pronargdefaults AS ndefaults
FROM pg_proc AS entry
JOIN pg_language AS language ON language.oid = entry.prolang
WHERE entry.pronamespace = $1::text::regnamespace
ORDER BY 1, entry.oid
"""

_OTHERS = """
SELECT relname AS name, relkind::text AS kind, relpersistence::text AS persistence,
    relrowsecurity AS row_security, reloptions AS options, relreplident::text AS identity
FROM pg_class
WHERE relnamespace = $1::text::regnamespace AND relkind <> 'i'
ORDER BY 1
"""


async def dump_postgres(connection: asyncpg.Connection[Any], schema: str) -> Facts:
    """The facts of one schema. Definitions name nothing of that schema with its name before it."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        quoted = str(await connection.fetchval("SELECT quote_ident($1)", schema))
        await connection.execute(f"SET LOCAL search_path TO {quoted}")

        async def facts(query: str) -> list[Facts]:
            return [dict(row) for row in await connection.fetch(query, quoted)]

        relations = await facts(_OTHERS)
        parts = {
            "columns": await facts(_COLUMNS),
            "indexes": await facts(_INDEXES),
            "constraints": await facts(_CONSTRAINTS),
            "triggers": await facts(_TRIGGERS),
        }
        versions = []
        if any(relation["name"] == "dbos_migrations" for relation in relations):
            versions = await connection.fetch("SELECT version FROM dbos_migrations ORDER BY 1")
        return {
            "versions": [row["version"] for row in versions],
            "tables": _by_table(parts),
            "functions": await facts(_FUNCTIONS),
            "relations": relations,
        }


def dump_sqlite(connection: sqlite3.Connection, own_prefix: str = "perdure_") -> Facts:
    """The facts of a file, without the tables that bear our own prefix."""
    connection.row_factory = sqlite3.Row

    def facts(query: str, *args: str) -> list[Facts]:
        return [dict(row) for row in connection.execute(query, args)]

    names = [
        row["name"]
        for row in facts("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        if not row["name"].startswith((own_prefix, "sqlite_"))
    ]
    versions = []
    if "dbos_migrations" in names:
        versions = facts("SELECT version FROM dbos_migrations ORDER BY version")
    return {
        "versions": [row["version"] for row in versions],
        "tables": {name: _sqlite_table(facts, name) for name in names},
        "triggers": facts("SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY name"),
        "views": facts("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name"),
    }


def _by_table(parts: Mapping[str, Iterable[Facts]]) -> Facts:
    tables: Facts = {}
    for part, rows in parts.items():
        for row in rows:
            table = tables.setdefault(row["table"], {name: [] for name in parts})
            table[part].append({key: value for key, value in row.items() if key != "table"})
    return tables


def _sqlite_table(facts: Any, name: str) -> Facts:
    (kind,) = facts("SELECT wr, strict FROM pragma_table_list(?) WHERE schema = 'main'", name)
    return {
        "columns": [
            {
                "position": column["cid"] + 1,
                "name": column["name"],
                "type": column["type"],
                "nullable": not column["notnull"],
                "default": column["dflt_value"],
                "pk_position": column["pk"],
            }
            for column in facts("SELECT * FROM pragma_table_xinfo(?) ORDER BY cid", name)
        ],
        "foreign_keys": [
            {
                "from": key["from"],
                "to_table": key["table"],
                "to": key["to"],
                "on_update": key["on_update"],
                "on_delete": key["on_delete"],
            }
            for key in facts('SELECT * FROM pragma_foreign_key_list(?) ORDER BY "from"', name)
        ],
        "indexes": [
            _sqlite_index(facts, index)
            for index in facts("SELECT * FROM pragma_index_list(?) ORDER BY name", name)
        ],
        "without_rowid": bool(kind["wr"]),
        "strict": bool(kind["strict"]),
    }


def _sqlite_index(facts: Any, index: Facts) -> Facts:
    (entry,) = facts("SELECT sql FROM sqlite_schema WHERE name = ?", index["name"])
    _, _, predicate = (entry["sql"] or "").partition("WHERE ")
    origins = {"c": "CREATE INDEX", "u": "UNIQUE constraint", "pk": "PRIMARY KEY"}
    columns = facts("SELECT * FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", index["name"])
    return {
        "name": index["name"],
        "unique": bool(index["unique"]),
        "origin": origins[index["origin"]],
        "partial": bool(index["partial"]),
        "columns": [{"name": c["name"], "desc": bool(c["desc"])} for c in columns],
        "predicate": predicate or None,
    }


async def _dump(url: str, schema: str) -> Facts:
    if url.startswith("sqlite:///"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            return dump_sqlite(connection)
        finally:
            connection.close()
    postgres = await asyncpg.connect(url)
    try:
        return await dump_postgres(postgres, schema)
    finally:
        await postgres.close()


def main(arguments: list[str]) -> None:
    url, schema = (*arguments, "dbos")[:2]
    print(json.dumps(asyncio.run(_dump(url, schema)), indent=2))


if __name__ == "__main__":
    if len(sys.argv) not in {2, 3}:
        raise SystemExit(__doc__)
    main(sys.argv[1:])
