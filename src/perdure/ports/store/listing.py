"""Looking at workflows, one by one, in pages, as trees and in numbers."""

from collections.abc import Sequence
from typing import Protocol

from perdure.model.ids import WorkflowId
from perdure.model.listing import (
    CountRequest,
    ListingRequest,
    StepCount,
    StepCountRequest,
    StepsRequest,
    StreamSummary,
    WorkflowCount,
)
from perdure.model.talk import MessageRow
from perdure.model.workflow import StepRow, WorkflowRow


class ListingStore(Protocol):
    """Plain reads for operators; none takes a lock.

    Rows in a state that this version does not know are passed over. What runs out of the time of a
    statement raises `ListingTooSlow`; asking again would take as long.
    """

    async def list_workflows(self, wanted: ListingRequest) -> list[WorkflowRow]:
        """The workflows that meet the filter, in its order, at most its limit. One statement.

        Rows inserted or changed meanwhile move no other row between pages.
        """
        ...

    async def count_workflows(self, wanted: CountRequest) -> list[WorkflowCount]:
        """How many workflows meet the filter, by what they are counted by. One statement.

        Counted by nothing it is one number, which may be 0.
        """
        ...

    async def count_steps(self, wanted: StepCountRequest) -> Sequence[StepCount]:
        """How many recorded steps there are, by what they are counted by. One statement.

        Those that do not say when they ended are left out. A step failed if it recorded an error.
        """
        ...

    async def list_descendants(self, workflow_id: WorkflowId, limit: int) -> list[WorkflowRow]:
        """Children, their children and so on, each once, at most `limit`. One statement.

        A parent is listed unless all of its own are left out too. The workflow itself is not among
        them, not even where rows name each other as parents in a circle.
        """
        ...

    async def list_ancestors(self, workflow_id: WorkflowId, limit: int) -> list[WorkflowRow]:
        """The parent, its parent and so on up to the first whose parent has no row, or `limit`.

        One statement; a circle is followed once.
        """
        ...

    async def list_steps(self, wanted: StepsRequest) -> list[StepRow]:
        """The next steps of a workflow, by step id; without outputs neither these nor errors."""
        ...

    async def list_messages(
        self, workflow_id: WorkflowId, limit: int, *, is_unread: bool
    ) -> Sequence[MessageRow]:
        """The messages to a workflow by their creation, at most `limit` of them.

        Those of one topic are in the order of sending; those of two topics that were sent within
        one millisecond are in any order. With `is_unread` only those that it has not received.
        """
        ...

    async def list_streams(self, workflow_id: WorkflowId) -> Sequence[StreamSummary]:
        """The streams of a workflow, by key."""
        ...
