"""Looking at workflows from outside: one implementation for the engine, the client and the CLI."""

import builtins
from collections.abc import Sequence
from typing import TypedDict, Unpack

from perdure.api.options import refuse_unknown
from perdure.engine.committer import Retry
from perdure.errors import InvalidArgument, WorkflowNotFound
from perdure.logic.explaining import Explanation, explain
from perdure.model.ids import WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.workflow import StepRow, WorkflowFilter, WorkflowRow
from perdure.ports.store import Store


class ListOptions(TypedDict, total=False):
    """What a listing wants; see `WorkflowFilter`."""

    states: Sequence[WorkflowState | str]
    names: Sequence[str]
    queues: Sequence[str]
    parent: str
    id_prefix: str
    newest_first: bool
    limit: int
    after: tuple[int, WorkflowId]
    with_payloads: bool


class Listing:
    """The reading half of `Workflows`."""

    def __init__(self, store: Store, retry: Retry) -> None:
        self._store = store
        self._retry = retry

    async def get(self, workflow_id: str, *, with_payloads: bool = False) -> WorkflowRow:
        """One workflow's row; raises `WorkflowNotFound`."""
        wanted = WorkflowFilter(
            ids=(WorkflowId(workflow_id),), limit=1, with_payloads=with_payloads
        )
        rows = await self._rows(wanted)
        if not rows:
            raise WorkflowNotFound(workflow_id)
        return rows[0]

    async def list(self, **options: Unpack[ListOptions]) -> builtins.list[WorkflowRow]:
        """The rows that match, by creation; at most `limit` (100). Payloads only when asked."""
        return await self._rows(filter_of(options))

    async def steps(self, workflow_id: str) -> builtins.list[StepRow]:
        """The recorded steps of a workflow, by step id; raises `WorkflowNotFound`."""
        found = WorkflowId(workflow_id)
        history = await self._retry(lambda: self._store.history([found]), "reading steps")
        steps = history.get(found)
        if steps is None:
            await self.get(workflow_id)
        return steps or []

    async def explain(self, workflow_id: str) -> Explanation:
        """Why a workflow does not run, or that it does, and what to do; raises `WorkflowNotFound`.

        >>> print((await engine.workflows.explain("convert-intro")).text)
        """
        asked = WorkflowId(workflow_id)
        found = await self._retry(
            lambda: self._store.circumstances(asked), f"explaining workflow {workflow_id!r}"
        )
        if found is None:
            raise WorkflowNotFound(workflow_id)
        return explain(found)

    async def _rows(self, wanted: WorkflowFilter) -> builtins.list[WorkflowRow]:
        return await self._retry(lambda: self._store.list_workflows(wanted), "listing workflows")


def filter_of(options: ListOptions) -> WorkflowFilter:
    """The filter of a listing; raises `InvalidArgument` naming the wrong option."""
    refuse_unknown(options, ListOptions, InvalidArgument)
    limit = options.get("limit", 100)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidArgument(f"limit={limit!r}: it must be a whole number above 0")
    try:
        states = tuple(WorkflowState(state) for state in options.get("states", ()))
    except ValueError as error:
        known = ", ".join(WorkflowState)
        raise InvalidArgument(f"states: {error}; the states are {known}") from error
    parent = options.get("parent")
    return WorkflowFilter(
        states=states,
        names=tuple(options.get("names", ())),
        queues=tuple(options.get("queues", ())),
        parent=None if parent is None else WorkflowId(parent),
        id_prefix=options.get("id_prefix"),
        newest_first=options.get("newest_first", False),
        limit=limit,
        after=options.get("after"),
        with_payloads=options.get("with_payloads", False),
    )
