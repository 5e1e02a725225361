"""What a caller says about workflows, as a filter: checked before any statement is made."""

import json
import math
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypedDict

from perdure.api.options import checked_choice, checked_flag, refuse_unknown
from perdure.errors import InvalidArgument
from perdure.model.listing import Cursor, ListingRequest, Window
from perdure.model.status import WorkflowState

Words: TypeAlias = str | Collection[str]
"""One text, or several of which one has to fit; none of an empty collection does."""

MOST_ROWS: Final = 10_000
"""Of one page. `iterate` goes through any number."""

_MOST_BEGINNINGS: Final = 100
"""Each is a condition of its own."""

_DEEPEST: Final = 20
_MOST_PARTS: Final = 200
_LARGEST: Final = 2**63 - 1
"""What a whole number of a database holds."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class FilterOptions(TypedDict, total=False):
    """Which workflows are meant; all of the conditions hold. None is no condition.

    Of several values one has to fit, and of an empty collection none does. Without `applications`
    and `any_application` this application's workflows and those of nobody are meant, and with `ids`
    whoever's they are. `id_prefixes` are no patterns. `executors` are executor ids as rows have
    them, or the names before their slash. `queued` are those on a queue that have not ended, or are
    in `states`. Instants are datetimes with a time zone, and both ends belong to the window.
    `attributes` is what the workflow's attributes contain: the same scalars, objects that contain
    these, arrays with at least these elements.
    """

    ids: Words | None
    id_prefixes: Words | None
    applications: Words | None
    any_application: bool | None
    names: Words | None
    class_names: Words | None
    config_names: Words | None
    states: WorkflowState | str | Collection[WorkflowState | str] | None
    versions: Words | None
    executors: Words | None
    users: Words | None
    queues: Words | None
    queued: bool | None
    schedules: Words | None
    dedup_ids: Words | None
    is_debounced: bool | None
    parents: Words | None
    has_parent: bool | None
    forked_from: Words | None
    is_fork: bool | None
    was_forked_from: bool | None
    created_from: datetime | None
    created_to: datetime | None
    started_from: datetime | None
    started_to: datetime | None
    completed_from: datetime | None
    completed_to: datetime | None
    attributes: Mapping[str, Any] | None


class StepFilterOptions(TypedDict, total=False):
    """Which recorded steps are meant; all of the conditions hold. None is no condition.

    `names` are the names of steps; otherwise as in `FilterOptions`.
    """

    names: Words | None
    completed_from: datetime | None
    completed_to: datetime | None
    any_application: bool | None


class ListOptions(FilterOptions, total=False):
    """Which workflows, in which order, how many, and what of them; see `FilterOptions`.

    They come in the order of their creation, or the other way with `newest_first`. `after` is the
    `next` of the page before. Payloads are read only if `with_inputs` or `with_outputs` ask for
    them: these are results and errors.
    """

    newest_first: bool | None
    limit: int | None
    after: str | Cursor | None
    with_inputs: bool | None
    with_outputs: bool | None


_WORDS: Final = frozenset(
    name for name, kind in FilterOptions.__annotations__.items() if kind == Words | None
)
_WINDOWS: Final = ("created", "started", "completed")
_BEGINNINGS: Final = ("id_prefixes", "executors")
_FLAGS: Final = frozenset(
    name for name, kind in ListOptions.__annotations__.items() if kind == bool | None
)


def conditions(options: Mapping[str, Any], known: type = FilterOptions) -> dict[str, Any]:
    """The fields of a `WorkflowFilter`; raises `InvalidArgument` naming the wrong option."""
    refuse_unknown(options, known, InvalidArgument)
    given = {option: value for option, value in options.items() if value is not None}
    fields: dict[str, Any] = {
        option: _words(option, value) for option, value in given.items() if option in _WORDS
    }
    fields |= {
        option: checked_flag(option, value) for option, value in given.items() if option in _FLAGS
    }
    for option in _BEGINNINGS:
        if len(fields.get(option, ())) > _MOST_BEGINNINGS:
            raise InvalidArgument(f"{option}: {len(fields[option])}; at most {_MOST_BEGINNINGS}")
    if "states" in given:
        fields["states"] = _states(given["states"])
    for name in _WINDOWS:
        fields[name] = Window(
            _milliseconds(f"{name}_from", given.get(f"{name}_from"), up=True),
            _milliseconds(f"{name}_to", given.get(f"{name}_to"), up=False),
        )
    if "attributes" in given:
        fields["attributes"] = _object(given["attributes"])
    return fields


def listing_of(options: Mapping[str, Any], *, most: int = MOST_ROWS) -> ListingRequest:
    """The page that is wanted; raises `InvalidArgument` naming the wrong option."""
    fields = conditions(options, ListOptions)
    limit = options.get("limit")
    if limit is not None:
        fields["limit"] = checked_limit(limit, most=most)
    after = options.get("after")
    if after is not None:
        fields["after"] = _cursor(after)
    return ListingRequest(**fields)


def checked_limit(limit: int, option: str = "limit", *, most: int = MOST_ROWS) -> int:
    """How many at most; raises `InvalidArgument`."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= most:
        raise InvalidArgument(f"{option}={limit!r}: it must be a whole number from 1 to {most:,}")
    return limit


def storable(option: str, text: object) -> str:
    """A text that every database can compare; raises `InvalidArgument`."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{option}={text!r}: it must be a text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{option}={text[:40]!r}: {error}") from error
    if "\x00" in text:
        raise InvalidArgument(f"{option}={text[:40]!r}: no text in a database holds a NUL")
    return str(text)


def _several(option: str, value: object) -> Iterable[Any]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, bytes | bytearray | Mapping) or not isinstance(value, Collection):
        raise InvalidArgument(f"{option}={value!r}: it must be a text, or a list of texts")
    return value


def _words(option: str, value: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(storable(option, word) for word in _several(option, value)))


def _states(value: object) -> tuple[WorkflowState, ...]:
    asked = _several("states", value)
    return tuple(dict.fromkeys(checked_choice("states", WorkflowState, state) for state in asked))


def _milliseconds(option: str, value: object, *, up: bool) -> int | None:
    """The first millisecond from an instant on, or the last one up to it."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{option}={value!r}: it must be a datetime with a time zone")
    if value.utcoffset() is None:
        raise InvalidArgument(
            f"{option}={value!r}: it has no time zone, such as in datetime.now(UTC)"
        )
    since = value - _EPOCH
    return -(-since // _MILLISECOND) if up else since // _MILLISECOND


def _cursor(value: object) -> Cursor:
    try:
        cursor = value if isinstance(value, Cursor) else Cursor.parse(storable("after", value))
    except ValueError as error:
        raise InvalidArgument(f"after={value!r}: it must be the `next` of a page") from error
    storable("after", cursor.workflow_id)
    if not isinstance(cursor.created_at_ms, int) or abs(cursor.created_at_ms) > _LARGEST:
        raise InvalidArgument(f"after={value!r}: it must be the `next` of a page")
    return cursor


def _object(value: object) -> str:
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"attributes={value!r}: it must be a dict")
    parts = _Parts()
    parts.check("attributes", value, 0)
    return json.dumps(value, ensure_ascii=False, default=dict)


class _Parts:
    """Goes through an object of JSON and counts its parts."""

    def __init__(self) -> None:
        self._number = 0

    def check(self, path: str, value: object, depth: int) -> None:
        """Raise `InvalidArgument` naming the part that no database could compare."""
        self._number += 1
        if self._number > _MOST_PARTS or depth > _DEEPEST:
            raise InvalidArgument(
                f"{path}: at most {_MOST_PARTS} values, nested {_DEEPEST} deep at most"
            )
        match value:
            case None | bool():
                pass
            case str():
                storable(path, value)
            case int() | float():
                if not math.isfinite(value) or abs(value) > _LARGEST:
                    raise InvalidArgument(f"{path}={value!r}: it is no number that can be compared")
            case Mapping():
                for key, part in value.items():
                    self.check(f"{path}.{storable(path, key)}", part, depth + 1)
            case list() | tuple():
                for place, part in enumerate(value):
                    self.check(f"{path}[{place}]", part, depth + 1)
            case _:
                raise InvalidArgument(f"{path}={value!r}: it is no value of JSON")
