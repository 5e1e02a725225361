"""`perdure migrate`."""

import asyncio
from typing import Annotated

import typer

from perdure.api.wiring import build_store
from perdure.cli.options import SCHEMA_DEFAULT, Database, Schema, required
from perdure.config import EngineConfig
from perdure.engine.system import SystemClock
from perdure.ports.store.lifecycle import SchemaReport


def migrate(
    *,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the statements instead of executing them.")
    ] = False,
) -> None:
    """Create the system schema, or bring it up to date.

    Does nothing where it is up to date or newer. An engine does the same when it starts, unless
    it is told not to.
    """
    report = asyncio.run(_migrate(required(database), schema, print_only=print_only))
    if print_only:
        for statement in report.statements:
            print(f"{statement.strip().removesuffix(';')};\n")
    print(_summary(report, print_only=print_only))


async def _migrate(url: str, schema: str, *, print_only: bool) -> SchemaReport:
    store = build_store(EngineConfig(url=url, schema=schema, version="-"), SystemClock())
    try:
        return await (store.plan_migration() if print_only else store.migrate())
    finally:
        await store.close()


def _summary(report: SchemaReport, *, print_only: bool) -> str:
    """What was done, as a comment where statements were printed."""
    number = len(report.statements)
    if not number:
        text = f"nothing to do: the schema is at version {report.after}"
    else:
        before = "nothing" if report.before is None else f"version {report.before}"
        done = "to execute" if print_only else "executed"
        text = f"from {before} to version {report.after}: {number:,} statements {done}"
    return f"-- {text}" if print_only else text
