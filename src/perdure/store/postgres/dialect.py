"""Conditions of composed statements as Postgres spells them."""

from collections.abc import Iterable, Sequence

from perdure.store import compose
from perdure.store.identifiers import quote_identifier


class Dialect(compose.Dialect):
    """See `perdure.store.compose.Dialect`."""

    def __init__(self, schema: str) -> None:
        self.tables = f"{quote_identifier(schema)}."

    def parameter(self, number: int) -> str:
        return f"${number}"

    def member(self, column: str, values: Sequence[str], mark: compose.Mark) -> str:
        return f"{column} = ANY({mark(list(values))})"

    def holds(self, dedup_ids: Sequence[str], mark: compose.Mark) -> str:
        return self.member("w.deduplication_id", dedup_ids, mark)

    def delayed(self) -> Iterable[str]:
        return ()

    def begins(self, column: str, prefixes: Sequence[str], mark: compose.Mark) -> str:
        tests = [f"starts_with({column}, {mark(prefix)})" for prefix in prefixes]
        return f"({' OR '.join(tests)})" if tests else "1 = 0"

    def contains(self, column: str, attributes: str, mark: compose.Mark) -> str:
        return f"{column} @> {mark(attributes)}::jsonb"
