"""Pages of what is too much to be read at once."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from perdure.model.listing import Cursor
from perdure.model.workflow import WorkflowRow

T = TypeVar("T")
C = TypeVar("C")


class Page(list[T], Generic[T, C]):
    """A list of some of them; `next` is where the others begin, None if these were the last.

    >>> page = await engine.workflows.list(states="ERROR", limit=50)
    >>> if page.next is not None:
    ...     page = await engine.workflows.list(states="ERROR", limit=50, after=page.next)
    """

    next: C | None

    def __init__(self, found: Iterable[T] = (), next: C | None = None) -> None:  # noqa: A002
        super().__init__(found)
        self.next = next


def page_of_workflows(rows: list[WorkflowRow], limit: int) -> Page[WorkflowRow, str]:
    """The page of a listing that asked for one more row than its limit."""
    if len(rows) <= limit:
        return Page(rows)
    return Page(rows[:limit], str(Cursor.behind(rows[limit - 1])))
