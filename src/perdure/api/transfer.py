"""Workflows as documents: taken out of a database, kept, brought into this or another one."""

from collections.abc import Awaitable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec

from perdure.api.call_options import Ids, checked_ids
from perdure.api.commands import CommandCall, Result, given
from perdure.api.options import checked_flag
from perdure.api.questions import plain_shape
from perdure.api.retention import Purging
from perdure.api.running import check_loop
from perdure.errors import InvalidArgument, WorkflowNotFound
from perdure.logic.transfer import archives_of, arrived
from perdure.model.ids import WorkflowId
from perdure.model.management import Command, Import
from perdure.model.wire import EXPORT_WORKFLOWS

T = TypeVar("T")

Document: TypeAlias = dict[str, Any]
"""One workflow with all that belongs to it, of JSON's kinds."""


class Transfers(Purging):
    """The half of `Workflows` that takes workflows out and brings them in, as a command does."""

    def export(self, ids: Ids, *, children: bool = False) -> Awaitable[list[Document]]:
        """Workflows as documents that JSON can hold, with all that belongs to them.

        Rows, steps, events with their history, streams and messages as they are at one moment, with
        payloads as the texts that they are stored as; in the order of the ids, and with `children`
        all descendants behind. They stay in the database. Raises `WorkflowNotFound`.

        >>> documents = await engine.workflows.export("convert-intro", children=True)
        >>> Path("convert-intro.json").write_text(json.dumps(documents))
        """
        named, below = checked_ids(ids), checked_flag("children", children)

        async def ask() -> list[Document]:
            found = await self._asked(
                partial(self._store.export_workflows, named, children=below),
                "exporting workflows",
            )
            known = {archive.workflow.workflow_id for archive in found}
            for workflow_id in named:
                if workflow_id not in known:
                    raise WorkflowNotFound(workflow_id)
            return [msgspec.to_builtins(archive) for archive in found]

        return self._question(EXPORT_WORKFLOWS, ask, plain_shape(list[Document]))

    def import_(
        self,
        documents: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        skip_existing: bool = False,
    ) -> Awaitable[list[WorkflowId]]:
        """Bring exported workflows into this database, all or none; returns their ids.

        Nobody runs what is imported: a workflow that was running waits in its queue, or the
        internal one, and goes on where it stopped, its attempts counted. One with an outcome has
        it. Applications, versions and instants are those of the documents.

        Raises `InvalidDocument` with the path to what is wrong before anything is written, and
        `WorkflowIdInUse`, `QueueDeduplicated` and `MessageIdInUse` for what stands in the way. With
        `skip_existing` workflows that stand are left as they are, and the others imported.

        >>> documents = json.loads(Path("convert-intro.json").read_text())
        >>> await engine.workflows.import_(documents)
        """
        skip = checked_flag("skip_existing", skip_existing)
        several = [documents] if isinstance(documents, Mapping) else documents
        if isinstance(several, str | bytes) or not isinstance(several, Iterable):
            raise InvalidArgument(f"documents must be what export returns, not {documents!r:.80}")
        archives = tuple(
            msgspec.structs.replace(archive, workflow=arrived(archive.workflow))
            for archive in archives_of(list(several))
        )
        return self._give(Import(archives, self._desk.ids.token(), skip), list)

    def _give(self, command: Command, result: Result[T]) -> Awaitable[T]:
        if self._records:
            return CommandCall(self._desk, command, result)
        check_loop(self._speaker)
        return given(self._desk, command, result)
