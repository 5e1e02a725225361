"""Messages between workflows, and from outside to them."""

from collections.abc import Sequence
from typing import Protocol

from perdure.model.answer import Answer
from perdure.model.ids import WorkflowId
from perdure.model.talk import Receiving, Sending, Topic
from perdure.model.workflow import StepRow


class MessageStore(Protocol):
    """The shared `notifications` table."""

    async def send(self, items: Sequence[Sending]) -> list[Answer[StepRow | frozenset[WorkflowId]]]:
        """Store messages, each item's all or none, together with its caller's step row.

        Per item: *written*; *mine*: the caller's row stands as by `StepStore.record`, or, without a
        caller, every message stands under its id (also one that was consumed since); *conflict*:
        a destination does not exist, and `standing` is the set of those that do not, or the
        caller's step id holds another record, which `standing` shows; *busy* and *lost*: as for
        `StepStore.record`, about the caller's run. Nothing is written but for *written*.

        A message whose id stands already is left as it is and counts as written with its
        neighbours: an idempotency key holds for one destination, for ever.

        Order: messages of one destination and topic are received in the order of `created_at`,
        which is the database's clock, or later than every other message of that destination and
        topic that stands, whichever is more; those of one item follow each other in their order.
        The other SDKs' trigger tells who waits, inside the transaction.
        """
        ...

    async def receive(self, items: Sequence[Receiving]) -> list[Answer[StepRow]]:
        """Take the oldest message of a topic for a run, and record that, in one transaction.

        The run is fenced as by `StepStore.record`. Of the messages to it under the topic that are
        not consumed the first by (created_at, message id) becomes consumed, with the step's id; the
        step's row is inserted with the message as its output and the message's label as its own
        (an unlabelled message leaves it unlabelled), and the row of the time limit with it.

        *written* with `standing` the step's row: a message was taken. *written* without: there was
        none, and nothing was written. *mine*: the step id holds a row of that name (a repeated
        try's, shown in `standing`). *conflict*, *busy*, *lost*: as for `record`. Two items of one
        run and topic take different messages.
        """
        ...

    async def topics_with_messages(self, topics: Sequence[Topic]) -> list[Topic]:
        """Of these topics, those with a message that is not consumed. One statement."""
        ...
