"""Tidings between processes that a workflow has ended.

The end of a workflow is told only where somebody elsewhere said that he waits for it, so that a
workflow nobody waits for costs nothing. Who waits says so once, and is answered also if the end
came just before that was heard; a process that begins to listen asks everybody to say it again.
What is missed in all this is found by the poll of who waits.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from perdure.engine.hints import HintKind, Hints
from perdure.model.ids import WorkflowId

MOST_REMEMBERED: Final = 100_000
"""Workflows of either kind; those that were named longest ago are forgotten first."""

MOST_RECENT: Final = 1000
"""Ends that are remembered: more than there are while a hint is under way."""


class Tidings:
    """Who waits for workflows that run elsewhere, here and in other processes."""

    def __init__(self, hints: Hints, is_local: Callable[[WorkflowId], bool]) -> None:
        self._hints = hints
        self._is_local = is_local
        self._said = _Names()
        self._wanted = _Names()
        self._recent = _Names()

    def want(self, workflow_id: WorkflowId) -> None:
        """Somebody here waits for the workflow: whoever ends it elsewhere is to tell."""
        if workflow_id not in self._said and not self._is_local(workflow_id):
            self._said.remember(workflow_id, MOST_REMEMBERED)
            self._hints.announce_workflow(HintKind.AWAITED, workflow_id)

    def repeat(self, awaited: Iterable[WorkflowId]) -> None:
        """Another process began to listen: say again what is waited for."""
        self._said.clear()
        for workflow_id in awaited:
            self.want(workflow_id)

    def wanted(self, awaited: Iterable[WorkflowId]) -> None:
        """Somebody in another process waits for these."""
        for workflow_id in awaited:
            if workflow_id in self._recent:
                self._tell(workflow_id)
            else:
                self._wanted.remember(workflow_id, MOST_REMEMBERED)

    def is_wanted(self, workflow_id: WorkflowId) -> bool:
        """Whether somebody in another process is known to wait for it."""
        return workflow_id in self._wanted

    def ended(self, workflow_id: WorkflowId) -> None:
        """The workflow has ended, as its row says: tell those who wait elsewhere."""
        if workflow_id in self._wanted:
            del self._wanted[workflow_id]
            self._tell(workflow_id)
        self._said.pop(workflow_id, None)
        self._recent.remember(workflow_id, MOST_RECENT)

    def taken(self, ids: Iterable[WorkflowId]) -> None:
        """These may go on although they had ended; many, if none is named."""
        named = tuple(ids)
        if not named:
            self._recent.clear()
        for workflow_id in named:
            self._recent.pop(workflow_id, None)

    def _tell(self, workflow_id: WorkflowId) -> None:
        self._hints.announce_workflow(HintKind.ENDED, workflow_id)

    def told(self, ended: Iterable[WorkflowId]) -> None:
        """Another process told that these have ended; whoever waits asks for himself."""
        for workflow_id in ended:
            self._wanted.pop(workflow_id, None)
            self._said.pop(workflow_id, None)


class _Names(OrderedDict[WorkflowId, None]):
    """In the order in which they were named last.

    A plain dict looks for its first among all that it forgot, which is most of an end's cost.
    """

    def remember(self, workflow_id: WorkflowId, most: int) -> None:
        """Name it; the one named longest ago goes if there are more than `most`."""
        self[workflow_id] = None
        self.move_to_end(workflow_id)
        if len(self) > most:
            self.popitem(last=False)
