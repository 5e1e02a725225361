"""The only SQL that is put together at run time: the listing of workflows.

Every value is a bound parameter; what is put together are conditions of our own. The text is the
same for both databases but for the few words a `Dialect` names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowFilter
from perdure.store.rows import WORKFLOW_COLUMNS
from perdure.store.sql import columns

_SELECT = "SELECT {columns} FROM {tables}workflow_status w"
_PAYLOADS = (
    ", COALESCE(i.inputs, w.inputs) AS inputs, COALESCE(o.output, w.output) AS output,"
    " COALESCE(o.error, w.error) AS error"
)
_PAYLOAD_TABLES = (
    " LEFT JOIN {tables}workflow_input i ON i.workflow_uuid = w.workflow_uuid"
    " LEFT JOIN {tables}workflow_output o ON o.workflow_uuid = w.workflow_uuid"
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the two databases spell differently.

    `tables` comes before a table's name. `mark` is the n-th parameter (from 1). `member` holds
    `{column}` and `{mark}` and tests a column against a parameter that `pack` made of several.
    """

    tables: str
    mark: Callable[[int], str]
    member: str
    pack: Callable[[Sequence[str]], object]


@dataclass(frozen=True, slots=True)
class Composed:
    """A statement and its parameters."""

    text: str
    parameters: tuple[object, ...]


class _Conditions:
    """Gathers conditions and their parameters in step."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._tests: list[str] = []
        self.parameters: list[object] = []

    def mark(self, value: object) -> str:
        self.parameters.append(value)
        return self._dialect.mark(len(self.parameters))

    def equal(self, column: str, value: str | None) -> None:
        if value is not None:
            self._tests.append(f"{column} = {self.mark(value)}")

    def among(self, column: str, values: Sequence[str]) -> None:
        if values:
            mark = self.mark(self._dialect.pack(values))
            self._tests.append(self._dialect.member.format(column=column, mark=mark))

    def add(self, test: str, *values: object) -> None:
        self._tests.append(test.format(*(self.mark(value) for value in values)))

    def where(self) -> str:
        return f" WHERE {' AND '.join(self._tests)}" if self._tests else ""


def list_workflows(wanted: WorkflowFilter, application_name: str, dialect: Dialect) -> Composed:
    """The statement whose rows `rows.workflow_row` reads, in the filter's order."""
    conditions = _Conditions(dialect)
    if wanted.ids:
        conditions.among("w.workflow_uuid", wanted.ids)
    else:
        conditions.add("(w.application_name = {} OR w.application_name IS NULL)", application_name)
    # Never without a condition: a newer schema may have states that we cannot show.
    conditions.among("w.status", [state.value for state in wanted.states or WorkflowState])
    conditions.among("w.name", wanted.names)
    conditions.among("w.queue_name", wanted.queues)
    conditions.equal("w.parent_workflow_id", wanted.parent)
    if wanted.id_prefix:
        # Not LIKE: SQLite's ignores case, and a prefix may hold wildcards.
        conditions.add(
            "substr(w.workflow_uuid, 1, {}) = {}", len(wanted.id_prefix), wanted.id_prefix
        )
    if wanted.after:
        comparison = "<" if wanted.newest_first else ">"
        conditions.add(f"(w.created_at, w.workflow_uuid) {comparison} ({{}}, {{}})", *wanted.after)
    direction = "DESC" if wanted.newest_first else "ASC"
    where = conditions.where()
    limit = conditions.mark(wanted.limit)
    text = (
        f"{_source(wanted, dialect)}{where}"
        f" ORDER BY w.created_at {direction}, w.workflow_uuid {direction} LIMIT {limit}"
    )
    return Composed(text, tuple(conditions.parameters))


def _source(wanted: WorkflowFilter, dialect: Dialect) -> str:
    listed = columns(WORKFLOW_COLUMNS, "w") + (_PAYLOADS if wanted.with_payloads else "")
    joined = _PAYLOAD_TABLES if wanted.with_payloads else ""
    # Replaced, not formatted: a quoted schema name may hold braces.
    return (_SELECT.replace("{columns}", listed) + joined).replace("{tables}", dialect.tables)
