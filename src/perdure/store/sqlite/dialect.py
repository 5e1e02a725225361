"""Conditions of composed statements as SQLite spells them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from perdure.store import compose
from perdure.store.sqlite.concern import packed


class Dialect(compose.Dialect):
    """See `perdure.store.compose.Dialect`."""

    tables = ""

    def parameter(self, number: int) -> str:
        return f"?{number}"

    def member(self, column: str, values: Sequence[str], mark: compose.Mark) -> str:
        return f"{column} IN (SELECT value FROM json_each({mark(packed(values))}))"

    # Without statistics SQLite walks the whole table rather than an index of few rows.

    def holds(self, dedup_ids: Sequence[str], mark: compose.Mark) -> str:
        test = self.member("held.deduplication_id", dedup_ids, mark)
        return (
            "w.rowid IN (SELECT held.rowid FROM workflow_status held"
            f" INDEXED BY uq_workflow_status_dedup_id WHERE {test})"
        )

    def delayed(self) -> Iterable[str]:
        yield (
            "w.rowid IN (SELECT waits.rowid FROM workflow_status waits"
            " INDEXED BY idx_workflow_status_delayed WHERE waits.status = 'DELAYED')"
        )

    def begins(self, column: str, prefixes: Sequence[str], mark: compose.Mark) -> str:
        # As a range, which an index serves; LIKE ignores case and knows patterns.
        tests = [
            " AND ".join(
                f"{column} {comparison} {mark(bound)}"
                for comparison, bound in ((">=", prefix), ("<", _behind(prefix)))
                if bound is not None
            )
            for prefix in prefixes
        ]
        return f"({' OR '.join(f'({test})' for test in tests)})" if tests else "1 = 0"

    def contains(self, column: str, attributes: str, mark: compose.Mark) -> str:
        # What is no JSON is NULL, which contains nothing.
        root = f"CASE WHEN json_valid({column}) THEN {column} END"
        tests = [*_holds_all(root, json.loads(attributes), mark)]
        # Only an object has keys that are texts.
        return " AND ".join(tests or [f"json_type({root}) = 'object'"])


def _behind(prefix: str) -> str | None:
    """The least text that is greater than all with this prefix; None if there is none.

    Texts are compared by their bytes, which is the order of the code points.
    """
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    last = ord(kept[-1]) + 1
    surrogates = range(0xD800, 0xE000)
    return kept[:-1] + chr(surrogates.stop if last in surrogates else last)


def _holds_all(
    base: str, asked: dict[str, Any], mark: compose.Mark, depth: int = 0
) -> Iterator[str]:
    """Tests of an object in JSON for each of the keys and what they hold."""
    part = f"part{depth}"
    for key, value in asked.items():
        tests = " AND ".join([f"{part}.key = {mark(key)}", *_holds(part, value, mark, depth)])
        yield f"EXISTS (SELECT 1 FROM json_each({base}) {part} WHERE {tests})"


def _holds(part: str, asked: Any, mark: compose.Mark, depth: int) -> Iterator[str]:
    """Tests of one row of `json_each` for what it holds."""
    match asked:
        case None:
            yield f"{part}.type = 'null'"
        case bool():
            yield f"{part}.type = '{'true' if asked else 'false'}'"
        case str():
            yield f"{part}.type = 'text'"
            yield f"{part}.atom = {mark(asked)}"
        case dict():
            yield f"{part}.type = 'object'"
            yield from _holds_all(f"{part}.value", asked, mark, depth + 1)
        case list():
            yield f"{part}.type = 'array'"
            inner = f"part{depth + 1}"
            for element in asked:
                tests = " AND ".join(_holds(inner, element, mark, depth + 1))
                yield f"EXISTS (SELECT 1 FROM json_each({part}.value) {inner} WHERE {tests})"
        case _:
            yield f"{part}.type IN ('integer', 'real')"
            yield f"{part}.atom = {mark(asked)}"
