"""The only SQL that is put together at run time: listings and counts of workflows.

Every value is a bound parameter; what is put together are conditions of our own. The text is the
same for both databases but for what a `Dialect` spells.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from perdure.model.ids import BOOT_PREFIX
from perdure.model.listing import (
    ALWAYS,
    CountKey,
    CountRequest,
    ListingRequest,
    Window,
    WorkflowFilter,
)
from perdure.model.status import ACTIVE, WorkflowState
from perdure.store.rows import WORKFLOW_COLUMNS
from perdure.store.sql import columns

_MEMBERS: Final = (
    ("ids", "workflow_uuid"),
    ("names", "name"),
    ("class_names", "class_name"),
    ("config_names", "config_name"),
    ("versions", "application_version"),
    ("users", "authenticated_user"),
    ("queues", "queue_name"),
    ("schedules", "schedule_name"),
    ("parents", "parent_workflow_id"),
    ("forked_from", "forked_from"),
)
"""Fields of a filter that name the values one of which a column has."""

_WINDOWS: Final = (
    ("created", "created_at"),
    ("started", "started_at_epoch_ms"),
    ("completed", "completed_at"),
)

_IN_FLIGHT: Final = frozenset({WorkflowState.ENQUEUED, WorkflowState.PENDING})
_FAILED: Final = frozenset(
    {
        WorkflowState.ERROR,
        WorkflowState.CANCELLED,
        WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED,
    }
)
_APART: Final = frozenset(WorkflowState) - {WorkflowState.SUCCESS}
"""States whose rows an index has, each for itself."""

_COUNTED: Final = {
    CountKey.STATE: "status",
    CountKey.QUEUE: "queue_name",
    CountKey.NAME: "name",
    CountKey.VERSION: "application_version",
    CountKey.EXECUTOR: "executor_id",
    CountKey.APPLICATION: "application_name",
    CountKey.CREATED: "created_at",
    CountKey.STARTED: "started_at_epoch_ms",
    CountKey.COMPLETED: "completed_at",
}

Mark = Callable[[object], str]
"""Binds a value and returns the parameter that stands for it."""


class Dialect(Protocol):
    """What the two databases spell differently."""

    tables: str
    """What comes before a table's name."""

    @abstractmethod
    def parameter(self, number: int) -> str:
        """The n-th parameter, from 1."""

    @abstractmethod
    def member(self, column: str, values: Sequence[str], mark: Mark) -> str:
        """Whether a column has one of several values."""

    @abstractmethod
    def holds(self, dedup_ids: Sequence[str], mark: Mark) -> str:
        """Whether a row of `w` has one of these deduplication ids, on whichever queue."""

    @abstractmethod
    def delayed(self) -> Iterable[str]:
        """What to say besides of the DELAYED rows of `w`, so that they are found by an index."""

    @abstractmethod
    def begins(self, column: str, prefixes: Sequence[str], mark: Mark) -> str:
        """Whether a text begins with one of several, each taken literally."""

    @abstractmethod
    def contains(self, column: str, attributes: str, mark: Mark) -> str:
        """Whether the JSON of a column contains an object, as `WorkflowFilter` says."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A statement and its parameters."""

    text: str
    parameters: tuple[object, ...]


class _Statement:
    """Gathers parameters, in the order in which a text names them."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.parameters: list[object] = []

    def mark(self, value: object) -> str:
        self.parameters.append(value)
        return self.dialect.parameter(len(self.parameters))

    def member(self, column: str, values: Sequence[str]) -> str:
        # A lone value as an equality, which leaves the order of an index as it is.
        if len(values) == 1:
            return f"{column} = {self.mark(values[0])}"
        return self.dialect.member(column, values, self.mark)

    def composed(self, text: str) -> Composed:
        # Replaced, not formatted: a quoted schema name may hold braces.
        return Composed(text.replace("{tables}", self.dialect.tables), tuple(self.parameters))


def list_workflows(
    wanted: ListingRequest, application_name: str | None, dialect: Dialect
) -> Composed:
    """The statement whose rows `listed.listed_workflow` reads, in the order of the listing.

    Without a name of an application every row is of this one.
    """
    statement = _Statement(dialect)
    direction = "DESC" if wanted.newest_first else "ASC"
    # What began or ended in a window was created around the same time: walking through all that
    # was created, from the other end, takes longer than sorting the window.
    created = "created_at + 0" if wanted.started != ALWAYS or wanted.completed != ALWAYS else ""

    def order(alias: str) -> str:
        limit = statement.mark(wanted.limit)
        return (
            f" ORDER BY {alias}.{created or 'created_at'} {direction},"
            f" {alias}.workflow_uuid {direction} LIMIT {limit}"
        )

    branches = []
    for states in _ways(wanted):
        tests = [*_conditions(statement, wanted, application_name, states)]
        tests += _behind(statement, wanted)
        where = " AND ".join(tests)
        branches.append(
            f"SELECT {columns(WORKFLOW_COLUMNS, 'w')}{_legacy(wanted)}"
            f" FROM {{tables}}workflow_status w WHERE {where}{order('w')}"
        )
    if len(branches) > 1:
        united = " UNION ALL ".join(f"SELECT * FROM ({branch}) way" for branch in branches)
        branches = [f"SELECT page.* FROM ({united}) page{order('page')}"]
    return statement.composed(_with_payloads(wanted, branches[0], direction))


def count_workflows(
    wanted: CountRequest, application_name: str | None, dialect: Dialect
) -> Composed:
    """The statement whose rows `listed.workflow_count` reads, in the order of the counts."""
    statement = _Statement(dialect)
    keys = list(dict.fromkeys(wanted.by))
    width = statement.mark(wanted.span_ms) if any(key.is_instant for key in keys) else ""
    counted = ["w.created_at AS created"]
    counted += ["w.started_at_epoch_ms AS started", "w.completed_at AS completed"]
    for key in keys:
        column = f"w.{_COUNTED[key]}"
        value = f"{column} - {column} % {width}" if key.is_instant else f"NULLIF({column}, '')"
        counted.append(f"{value} AS key_{key.value}")
    where = " AND ".join(_conditions(statement, wanted, application_name, wanted.states))
    named = [f"each.key_{key.value}" for key in keys]
    order = [f"each.key_{key.value}" for key in keys if key.is_instant]
    order += ["number DESC", *(name for name in named if name not in order)]
    text = (
        "SELECT count(*) AS number, min(each.created) AS oldest_at,"
        " max(each.started - each.created) AS longest_wait,"
        f" max(each.completed - each.created) AS longest_life{''.join(f', {n}' for n in named)}"
        f" FROM (SELECT {', '.join(counted)} FROM {{tables}}workflow_status w WHERE {where}) each"
    )
    if named:
        text += f" GROUP BY {', '.join(named)} ORDER BY {', '.join(order)}"
    return statement.composed(f"{text} LIMIT {statement.mark(wanted.limit)}")


def _ways(wanted: ListingRequest) -> list[tuple[WorkflowState, ...] | None]:
    """The states to look for at once: each for itself where an index has its rows in order."""
    states = wanted.states
    if states is None and wanted.queued:
        states = tuple(sorted(ACTIVE))
    if states and _APART.issuperset(states):
        return [(state,) for state in dict.fromkeys(states)]
    return [states]


def _conditions(
    statement: _Statement,
    wanted: WorkflowFilter,
    application_name: str | None,
    states: Sequence[WorkflowState] | None,
) -> Iterator[str]:
    """Every condition of a filter but its states, and these states instead."""
    yield from _of_applications(statement, wanted, application_name)
    yield from _in_states(statement, wanted, states)
    for field, column in _MEMBERS:
        values: Sequence[str] | None = getattr(wanted, field)
        if values is not None:
            yield statement.member(f"w.{column}", values)
    dialect = statement.dialect
    if wanted.dedup_ids is not None:
        yield dialect.holds(wanted.dedup_ids, statement.mark)
    if wanted.id_prefixes is not None:
        yield dialect.begins("w.workflow_uuid", wanted.id_prefixes, statement.mark)
    if wanted.executors is not None:
        bare = [f"{name}/{BOOT_PREFIX}" for name in wanted.executors]
        yield (
            f"({statement.member('w.executor_id', wanted.executors)}"
            f" OR {dialect.begins('w.executor_id', bare, statement.mark)})"
        )
    yield from _flags(wanted)
    for field, column in _WINDOWS:
        window: Window = getattr(wanted, field)
        if window.from_ms is not None:
            yield f"w.{column} >= {statement.mark(window.from_ms)}"
        if window.to_ms is not None:
            yield f"w.{column} <= {statement.mark(window.to_ms)}"
    if wanted.attributes is not None:
        yield dialect.contains("w.attributes", wanted.attributes, statement.mark)


def _of_applications(
    statement: _Statement, wanted: WorkflowFilter, application_name: str | None
) -> Iterator[str]:
    if wanted.any_application:
        return
    if wanted.applications is not None:
        named = statement.member("w.application_name", wanted.applications)
        yield f"({named} OR w.application_name IS NULL)"
    elif wanted.ids is None and application_name is not None:
        mark = statement.mark(application_name)
        yield f"(w.application_name = {mark} OR w.application_name IS NULL)"


def _in_states(
    statement: _Statement, wanted: WorkflowFilter, states: Sequence[WorkflowState] | None
) -> Iterator[str]:
    if wanted.queued:
        yield "w.queue_name <> ''"
        if states is None:
            states = sorted(ACTIVE)
    # Never without a condition: a newer schema may have states that we cannot show.
    states = list(WorkflowState) if states is None else states
    yield _is_among("w.status", states)
    # As a partial index says it, so that SQLite sees that it may be used.
    for kind in (_IN_FLIGHT, _FAILED):
        if states and kind.issuperset(states):
            yield _is_among("w.status", [state for state in WorkflowState if state in kind])
    if states == (WorkflowState.DELAYED,):
        yield from statement.dialect.delayed()


def _is_among(column: str, states: Sequence[WorkflowState]) -> str:
    """A test for states, which are words of ours."""
    if len(states) == 1:
        return f"{column} = '{states[0].value}'"
    words = ", ".join(f"'{state.value}'" for state in states)
    return f"{column} IN ({words})" if words else "1 = 0"


def _flags(wanted: WorkflowFilter) -> Iterator[str]:
    # Children are many, and found in the order of their creation; forks are few, and found by a
    # range of their index.
    for present, column, comparison in (
        (wanted.has_parent, "parent_workflow_id", "<>"),
        (wanted.is_fork, "forked_from", ">"),
    ):
        if present is not None:
            yield f"w.{column} {comparison} ''" if present else f"COALESCE(w.{column}, '') = ''"
    for flag, column in (
        (wanted.was_forked_from, "was_forked_from"),
        (wanted.is_debounced, "is_debounced"),
    ):
        if flag is not None:
            yield f"w.{column} = {'TRUE' if flag else 'FALSE'}"


def _behind(statement: _Statement, wanted: ListingRequest) -> Iterator[str]:
    if wanted.after is not None:
        comparison = "<" if wanted.newest_first else ">"
        place = ", ".join(statement.mark(value) for value in wanted.after)
        yield f"(w.created_at, w.workflow_uuid) {comparison} ({place})"


def _legacy(wanted: ListingRequest) -> str:
    """The columns in which payloads were kept before they had tables of their own."""
    inputs = ", w.inputs AS old_inputs" if wanted.with_inputs else ""
    outputs = ", w.output AS old_output, w.error AS old_error" if wanted.with_outputs else ""
    return inputs + outputs


def _with_payloads(wanted: ListingRequest, page: str, direction: str) -> str:
    """The page, and beside it the payloads of its rows alone."""
    listed, joined = "page.*", ""
    if wanted.with_inputs:
        listed += ", COALESCE(i.inputs, page.old_inputs) AS inputs"
        joined += _joined("input", "i")
    if wanted.with_outputs:
        listed += ", COALESCE(o.output, page.old_output) AS output"
        listed += ", COALESCE(o.error, page.old_error) AS error"
        joined += _joined("output", "o")
    if not joined:
        return page
    return (
        f"SELECT {listed} FROM ({page}) page{joined}"
        f" ORDER BY page.created_at {direction}, page.workflow_uuid {direction}"
    )


def _joined(kind: str, alias: str) -> str:
    return (
        f" LEFT JOIN {{tables}}workflow_{kind} {alias}"
        f" ON {alias}.workflow_uuid = page.workflow_uuid"
    )
