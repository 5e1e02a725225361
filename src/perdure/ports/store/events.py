"""Events: values a workflow publishes under keys."""

from collections.abc import Sequence
from typing import Protocol

from perdure.model.answer import Answer
from perdure.model.ids import WorkflowId
from perdure.model.talk import EventRow, Key, NewEvent
from perdure.model.workflow import StepRow


class EventStore(Protocol):
    """The shared `workflow_events` and `workflow_events_history` tables."""

    async def publish(self, items: Sequence[NewEvent]) -> list[Answer[StepRow]]:
        """Set values with their steps' rows, fenced as by `StepStore.record`, which answers alike.

        Each *written* item upserts the key's present value and the history's of that step.
        Several items of one key in a batch: the one with the highest step id is the present value.
        """
        ...

    async def events(self, keys: Sequence[Key]) -> list[EventRow]:
        """The present values of these keys, those that have one. One statement."""
        ...

    async def events_of(self, workflow_id: WorkflowId) -> list[EventRow]:
        """Every key of a workflow with its present value, by key."""
        ...
