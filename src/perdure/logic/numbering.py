"""Step ids: handed out when a durable call is built, in source order, branch-aware."""

from perdure.errors import InvalidArgument
from perdure.model.ids import StepId

LARGEST_STEP_ID = 2**31 - 1
"""The column is a signed 32-bit integer."""


class Numbering:
    """The ids of one branch: an arithmetic series that only moves forward.

    The body of a workflow takes 1, 2, 3, …; inside a scope of k branches, branch i takes every
    k-th id of its parent's series, so the ids of concurrent branches never depend on scheduling.
    """

    __slots__ = ("_next", "_stride")

    def __init__(self, first: int = 1, stride: int = 1) -> None:
        self._next = first
        self._stride = stride

    @property
    def upcoming(self) -> int:
        """The id the next `take` returns."""
        return self._next

    def is_ahead(self, step_id: StepId) -> bool:
        """Whether the id is one that this series has yet to take."""
        distance = step_id - self._next
        return distance >= 0 and distance % self._stride == 0

    def take(self) -> StepId:
        """Take the next id; raises `InvalidArgument` when the column's range is used up."""
        taken = self._next
        if taken > LARGEST_STEP_ID:
            raise InvalidArgument(
                f"step id {taken} does not fit the database's column; nested scopes multiply the "
                "distance between ids: move inner branches into child workflows"
            )
        self._next = taken + self._stride
        return StepId(taken)

    def split(self, branches: int) -> tuple["Numbering", ...]:
        """The series of `branches` concurrent branches that begin here."""
        return tuple(
            Numbering(self._next + index * self._stride, self._stride * branches)
            for index in range(branches)
        )

    @property
    def highest(self) -> int:
        """The highest id taken so far, or less than the first if none was."""
        return self._next - self._stride

    def go_on_at(self, step_id: int) -> None:
        """Take that id next: where a closed scope left off."""
        self._next = step_id

    def resume_above(self, highest: int) -> None:
        """Go on at the next id of this series above `highest`, taken by a branch."""
        if highest >= self._next:
            missing = highest - self._next
            self._next += (missing // self._stride + 1) * self._stride
