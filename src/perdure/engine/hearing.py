"""What a process does about what it hears from others."""

from collections.abc import Sequence
from typing import NamedTuple

from perdure.engine.dispatcher import Dispatcher
from perdure.engine.hints import Hint, HintKind, Hints
from perdure.engine.signals import Signals
from perdure.engine.sweeper import OwnershipPoll
from perdure.engine.tidings import Tidings
from perdure.engine.waiter import Waiter
from perdure.model.ids import WorkflowId
from perdure.ports.store.hints import TALK


class Ear(NamedTuple):
    """Passes hints on to those whom they concern."""

    hints: Hints
    dispatcher: Dispatcher
    ownership: OwnershipPoll
    tidings: Tidings
    waiter: Waiter
    signals: Signals

    def hear(self, text: str, *, takes_work: bool) -> None:
        """Another process announced something. Whoever takes no work does nothing about queues."""
        if text == TALK:
            self.look_at_all()
            return
        if text.startswith(TALK):
            self.signals.hear(text)
            return
        hint = self.hints.read(text)
        if hint is not None and not self._hear_of_workflows(hint) and takes_work:
            self._hear_of_queues(hint)

    def look_at_all(self) -> None:
        """Hints may have been missed, or say no more than that others committed."""
        self.signals.hear_all()
        self.waiter.hear_all()
        self.ownership.others_committed()

    def _hear_of_workflows(self, hint: Hint) -> bool:
        """Whether it was about workflows that are named, or who waits for them."""
        if hint.kind is HintKind.AWAITED:
            self.tidings.wanted(hint.workflows)
        elif hint.kind is HintKind.ENDED:
            self.tidings.told(hint.workflows)
            self._hear_of_change(hint.workflows)
        elif hint.kind is HintKind.TAKEN:
            self._hear_of_taken(hint.workflows)
        elif hint.kind is HintKind.LISTENING:
            self.tidings.repeat((*self.waiter.awaited, *self.signals.followed))
        else:
            return False
        return True

    def _hear_of_queues(self, hint: Hint) -> None:
        if hint.kind is HintKind.WORK:
            self.dispatcher.work_in(hint.queue)
        elif hint.kind is HintKind.SEEN:
            self.dispatcher.change_in(hint.queue)
        elif hint.kind is HintKind.ROOM:
            self.dispatcher.look_in(hint.queue)
        elif hint.kind is HintKind.WANTED:
            self.dispatcher.wanted(hint.queue)
        else:
            self.dispatcher.look_everywhere()
            self._hear_of_taken(())

    def _hear_of_taken(self, ids: Sequence[WorkflowId]) -> None:
        """These were taken from whoever runs them; many, if none is named."""
        if not ids:
            self.ownership.suspect_all()
            self.look_at_all()
        for workflow_id in ids:
            self.ownership.suspect(workflow_id)
        self._hear_of_change(ids)

    def _hear_of_change(self, ids: Sequence[WorkflowId]) -> None:
        self.waiter.hear(ids)
        for workflow_id in ids:
            self.signals.hear_end(workflow_id)
