"""Taking workflows out of the database; `Import` brings them in."""

from collections.abc import Sequence
from typing import Protocol

from perdure.model.ids import WorkflowId
from perdure.model.transfer import Archive


class TransferStore(Protocol):
    """A plain read for those who keep workflows, or move them."""

    async def export_workflows(
        self, ids: Sequence[WorkflowId], *, children: bool = False
    ) -> list[Archive]:
        """All that belongs to these workflows, in the order given; with `children` also to all
        their descendants, each behind its parent.

        All of it is of one moment. Unknown ids are passed over, an id is exported once. Payloads
        are found in either place. A row that could not be stored again raises `DatabaseRejected`.
        """
        ...
