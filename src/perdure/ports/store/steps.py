"""Step rows: record and read back."""

from collections.abc import Sequence
from typing import Protocol

from perdure.model.answer import Answer
from perdure.model.ids import WorkflowId
from perdure.model.talk import Closing
from perdure.model.workflow import Checkpoint, StepRow


class StepStore(Protocol):
    """The history of runs."""

    async def record(self, items: Sequence[Checkpoint]) -> list[Answer[StepRow]]:
        """Insert step rows, each fenced on its run. One statement when nothing goes wrong.

        The statement locks each distinct run's row (in id order, skipping locked ones) and checks
        PENDING and owner before it inserts, so a takeover, a cancel and a step of one run exclude
        each other. Answers in the order of the items:
        *written*; *mine*: the step id holds a row with the same name and `completed_at_ms`
        (checked before *lost*, so a repeated write after a takeover still learns the truth);
        *conflict*: it holds another record, shown in `standing`; *busy*: the run's row is locked
        by someone; *lost*: the run is not PENDING under this owner, or gone.
        A value the database cannot store raises `DatabaseRejected` with nothing written.
        """
        ...

    async def close_scopes(self, items: Sequence[Closing]) -> list[Answer[StepRow]]:
        """Record verdicts of scopes, each fenced on its run and answered like `record`.

        In one transaction per call: the step rows of `put_back` are deleted and what they consumed
        is unconsumed again; the open rows and the verdict are inserted. With `voids` a row of the
        same name under the verdict's id is overwritten, unless it bears the item's own completion
        stamp (*mine*). Nothing of an item is written unless all of it is.
        """
        ...

    async def history(self, ids: Sequence[WorkflowId]) -> dict[WorkflowId, list[StepRow]]:
        """All steps of these workflows by step id, read in bounded pages; absent means none."""
        ...
