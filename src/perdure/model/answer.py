"""What a hot write says about each of its rows."""

from enum import Enum
from typing import Any, Final, Generic, TypeVar

import msgspec

S_co = TypeVar("S_co", covariant=True)


class AnswerKind(Enum):
    """The five things that can have happened to one row of a batch.

    They are checked in this order of precedence: *written*, *mine*, *conflict*, *lost*, *busy*.
    """

    WRITTEN = "written"
    """This call wrote the row."""

    MINE = "mine"
    """The row stands as this very item would have written it: an earlier try got through."""

    CONFLICT = "conflict"
    """Another record stands there; `standing` shows it. Nothing was written."""

    BUSY = "busy"
    """Somebody holds the lock of the row that fences this item. Nothing was written; try again."""

    LOST = "lost"
    """The run is no longer PENDING under this owner token. Nothing was written, nothing may be."""


class Answer(msgspec.Struct, Generic[S_co], frozen=True):
    """One row's answer; `standing` is the record found in its place, where there is one."""

    kind: AnswerKind
    standing: S_co | None = None


WRITTEN: Final[Answer[Any]] = Answer(AnswerKind.WRITTEN)
MINE: Final[Answer[Any]] = Answer(AnswerKind.MINE)
BUSY: Final[Answer[Any]] = Answer(AnswerKind.BUSY)
LOST: Final[Answer[Any]] = Answer(AnswerKind.LOST)
