"""Streams: values a workflow appends under keys, for readers who follow."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from perdure.model.answer import Answer
from perdure.model.status import WorkflowState
from perdure.model.talk import Appending, Key, StreamRow
from perdure.model.workflow import StepRow


class StreamPage(NamedTuple):
    """What a reader found: `state` is None if there is no such workflow."""

    rows: tuple[StreamRow, ...]
    state: WorkflowState | None


class Reading(NamedTuple):
    """What a reader wants: at most `limit` values from `offset` on."""

    key: Key
    offset: int
    limit: int


class StreamStore(Protocol):
    """The shared `streams` table."""

    async def append(self, items: Sequence[Appending]) -> list[Answer[StepRow]]:
        """Append values, each at the next offset of its key, in the order of the items.

        The run's row is locked as by `StepStore.record`, so that writers of one run follow each
        other and offsets have no gaps. An item with a caller is answered like `record`. One from
        inside a step is *mine* if an append with its `append_id` is logged in our own schema, which
        a *written* one does in the same transaction; else as `record` about the fence.
        """
        ...

    async def stream_pages(self, readings: Sequence[Reading]) -> list[StreamPage]:
        """What each reader wants, in the order asked; values and state are of one moment.

        One statement. A workflow that was seen as ended appended nothing after that moment.
        """
        ...
