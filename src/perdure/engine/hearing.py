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


class Waiting(NamedTuple):
    """Those who wait in a process, and what it says and knows of them."""

    hints: Hints
    tidings: Tidings
    waiter: Waiter
    signals: Signals


class Ear:
    """Passes hints on to those who wait: all that concerns a process in which nothing runs."""

    def __init__(self, waiting: Waiting) -> None:
        self._hints, self._tidings, self._waiter, self._signals = waiting

    @property
    def is_needed(self) -> bool:
        """Whether somebody waits for what hints may be about."""
        return bool(self._waiter.awaited or self._signals.waiting)

    def hear(self, text: str) -> None:
        """Another process announced something."""
        if text == TALK:
            self.look_at_all()
            return
        if text.startswith(TALK):
            self._signals.hear(text)
            return
        hint = self._hints.read(text)
        if hint is not None:
            self.heed(hint)

    def begin(self) -> None:
        """The connection is new: hints may have been missed, others' here and one's own there."""
        self._say_again()
        self.look_at_all()

    def look_at_all(self) -> None:
        """Hints may have been missed, or say no more than that others committed."""
        self._signals.hear_all()
        self._waiter.hear_all()

    def heed(self, hint: Hint) -> None:
        """Do what there is to do about it here."""
        if hint.kind is HintKind.ENDED:
            self._tidings.told(hint.workflows)
            self._hear_of_change(hint.workflows)
        elif hint.kind is HintKind.TAKEN:
            self.hear_of_taken(hint.workflows)
        elif hint.kind is HintKind.ALL:
            self.hear_of_taken(())
        elif hint.kind is HintKind.LISTENING:
            self._say_again()

    def hear_of_taken(self, ids: Sequence[WorkflowId]) -> None:
        """These were taken from whoever ran them; many, if none is named."""
        self._tidings.taken(ids)
        if not ids:
            self.look_at_all()
        self._hear_of_change(ids)

    def _say_again(self) -> None:
        self._tidings.repeat((*self._waiter.awaited, *self._signals.followed))

    def _hear_of_change(self, ids: Sequence[WorkflowId]) -> None:
        self._waiter.hear(ids)
        for workflow_id in ids:
            self._signals.hear_end(workflow_id)


class WorkersEar(Ear):
    """The same in a process that runs workflows and, as long as it `takes_work`, begins others."""

    def __init__(self, waiting: Waiting, dispatcher: Dispatcher, ownership: OwnershipPoll) -> None:
        super().__init__(waiting)
        self._dispatcher = dispatcher
        self._ownership = ownership
        self.takes_work = True

    def look_at_all(self) -> None:
        """See `Ear.look_at_all`; runs may have been taken as well."""
        super().look_at_all()
        self._ownership.others_committed()

    def heed(self, hint: Hint) -> None:
        """See `Ear.heed`."""
        if hint.kind is HintKind.AWAITED:
            self._tidings.wanted(hint.workflows)
            return
        super().heed(hint)
        if self.takes_work:
            self._hear_of_queues(hint)

    def hear_of_taken(self, ids: Sequence[WorkflowId]) -> None:
        """See `Ear.hear_of_taken`: it may have been from here."""
        if not ids:
            self._ownership.suspect_all()
        for workflow_id in ids:
            self._ownership.suspect(workflow_id)
        super().hear_of_taken(ids)

    def _hear_of_queues(self, hint: Hint) -> None:
        if hint.kind is HintKind.WORK:
            self._dispatcher.work_in(hint.queue)
        elif hint.kind is HintKind.SEEN:
            self._dispatcher.change_in(hint.queue)
        elif hint.kind is HintKind.ROOM:
            self._dispatcher.look_in(hint.queue)
        elif hint.kind is HintKind.WANTED:
            self._dispatcher.wanted(hint.queue)
        elif hint.kind is HintKind.ALL:
            self._dispatcher.look_everywhere()
