"""What a scope of concurrent branches records about itself.

A scope takes two ids. Its *open* row says how many numbered branches it has, so that a replay with
another number is noticed; its *close* row says which branch decided, where it ended otherwise than
by the return of all of them.
"""

from collections.abc import Container
from typing import TypeVar

import msgspec

from perdure.model.ids import StepId
from perdure.model.workflow import StepRow

CLOSE = ".close"
"""What the name of a close row has beyond the open row's."""

BY_TIME = -1
"""The deciding branch where a time limit ended the scope."""

NOBODY = -2
"""The deciding branch of a verdict that was taken back: its ground had been cut away."""


class Opening(msgspec.Struct, frozen=True, omit_defaults=True):
    """The open row: the number of numbered branches, and when the scope's time is up, if ever."""

    branches: int
    until_ms: int | None = None


class Verdict(msgspec.Struct, frozen=True):
    """The close row.

    `branch` is the position of the branch that decided, `highest` the highest id it recorded (None
    if it recorded nothing), `next_id` where the place of the scope goes on.
    """

    branch: int
    highest: int | None
    next_id: int

    def is_void(self, history: Container[StepId]) -> bool:
        """Whether what it rests on was cut away by a fork or a rewind, now or before."""
        if self.branch == NOBODY:
            return True
        return self.highest is not None and StepId(self.highest) not in history


Row = TypeVar("Row", Opening, Verdict)


def encoded(row: Opening | Verdict) -> str:
    """The text of a row."""
    return msgspec.json.encode(row).decode()


def decoded(row: StepRow, kind: type[Row]) -> Row | None:
    """What an open or close row says; None if it is none."""
    try:
        return msgspec.json.decode(row.output or "", type=kind)
    except msgspec.MsgspecError:
        return None
