"""The life of a run: start, finish, release. The hot methods take batches."""

from collections.abc import Sequence
from typing import Protocol

from perdure.model.answer import Answer
from perdure.model.ids import ExecutorId
from perdure.model.workflow import (
    Finish,
    Outcome,
    Release,
    StandingWorkflow,
    Start,
)


class RunStore(Protocol):
    """Transitions of workflow rows. Answers come in the order of the items."""

    async def start(
        self, items: Sequence[Start], executor_id: ExecutorId | None
    ) -> list[Answer[StandingWorkflow]]:
        """Insert new workflows with their inputs, each child together with its parent's step row.

        The statement holds a key-share lock on the lease of `executor_id`; if that lease is
        missing or taken, raises `LeaseLost` and nothing is written. With None no lease is asked
        for, the rows name no executor, and none of them is PENDING. Per item:
        *written*: the row (and the caller's step row) was inserted by this call.
        *mine*: a row with the same id and the same `creator` stands; an earlier try got through.
        *conflict*: another creator's row stands under the id (`standing` shows it), or under the
        queue's deduplication id (`standing` shows the holder, whose id differs). Neither the
        workflow nor the caller's step row was written.
        *lost* / *busy*: as for `record`, about the caller's run; *busy* also where what stood in
        the way was gone before it could be shown. An item whose caller's step id is already taken
        by another record is *conflict* with `standing` None.
        One item never fails its neighbours, except that a value the database cannot store raises
        `DatabaseRejected` for the whole batch with nothing written.
        """
        ...

    async def finish(self, items: Sequence[Finish]) -> list[Answer[Outcome]]:
        """End owned runs: the row's state and, for SUCCESS and ERROR, its `workflow_output` row.

        Guard: the row is PENDING under the item's owner. Sets `completed_at` = `updated_at` =
        database clock, clears owner and deduplication id; CANCELLED and
        MAX_RECOVERY_ATTEMPTS_EXCEEDED also clear queue name and start time. Per item:
        *written*; *mine*: the row is terminal already, `standing` is its recorded outcome
        (whoever wrote it); *busy*: its lock is held elsewhere; *lost*: it is active under another
        owner or in another state, or gone. A run appears once in a batch.
        """
        ...

    async def release(self, items: Sequence[Release]) -> list[Answer[Outcome]]:
        """Give owned runs back: PENDING under the item's owner becomes ENQUEUED (or DELAYED).

        Owner and start time become NULL, the queue is kept or else becomes the internal one,
        `executor_id` is kept, `updated_at` is set. *written*, *busy*, or *lost* for anything else.
        """
        ...
