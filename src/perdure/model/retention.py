"""Which ended workflows are removed, and how far removing them has come.

Instants are milliseconds since the Unix epoch on the database's clock.
"""

from typing import Final, NamedTuple

import msgspec

from perdure.model.status import ACTIVE, WorkflowState

ENDED: Final = tuple(state for state in WorkflowState if state not in ACTIVE)
"""States in which a workflow may be removed."""


class Expired(msgspec.Struct, frozen=True):
    """Workflows that ended before `before_ms`, in one of `states`, and of one of `names` or any."""

    before_ms: int
    states: tuple[WorkflowState, ...] = ENDED
    names: tuple[str, ...] = ()


class Purged(NamedTuple):
    """How many workflows one look found and removed, and the instant from which to look next.

    That is None when there is nothing more to look at.
    """

    number: int
    next_ms: int | None
