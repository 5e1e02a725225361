"""Our own tables as an earlier release left them are brought up to date."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from perdure.logic.schema import OWN_VERSION
from perdure.store.postgres import schema as postgres_schema
from perdure.store.sqlite import schema as sqlite_schema
from tests.support.backdoor import connect_file
from tests.support.schemas import connected, connector, postgres_facts

VERSIONS = list(range(1, OWN_VERSION + 1))


async def test_version_2_gets_the_log_of_streams(postgres_url: str) -> None:
    await postgres_schema.migrate(connector(postgres_url), "dbos")
    fresh = await postgres_facts(postgres_url, "perdure")
    assert "stream_log" in fresh["tables"]
    async with connected(postgres_url) as connection:
        await connection.execute(
            "DROP TABLE perdure.stream_log; DELETE FROM perdure.schema_version WHERE version = 3"
        )
        report = await postgres_schema.migrate(connector(postgres_url), "dbos")
        assert "stream_log" in " ".join(report.statements)
        versions = await connection.fetch("SELECT version FROM perdure.schema_version ORDER BY 1")
    assert await postgres_facts(postgres_url, "perdure") == fresh
    assert [row["version"] for row in versions] == VERSIONS


def test_version_2_of_a_file_gets_the_log_of_streams(tmp_path: Path) -> None:
    with closing(connect_file(str(tmp_path / "app.db"))) as connection:
        sqlite_schema.migrate(connection)
        everything = "SELECT name, sql FROM sqlite_schema ORDER BY name"
        fresh = connection.execute(everything).fetchall()
        connection.execute("DROP TABLE perdure_stream_log")
        connection.execute("DELETE FROM perdure_schema_version WHERE version = 3")
        assert "perdure_stream_log" in " ".join(sqlite_schema.migrate(connection).statements)
        assert connection.execute(everything).fetchall() == fresh
        versions = connection.execute("SELECT version FROM perdure_schema_version ORDER BY 1")
        assert [version for (version,) in versions] == VERSIONS
