"""The desk of who runs nothing: a client's."""

from contextlib import AsyncExitStack

from perdure.engine.desk import Desk
from perdure.engine.hearing import Ear, Waiting
from perdure.engine.hints import Hints
from perdure.engine.listening import Listener
from perdure.engine.signals import Interest
from perdure.engine.talk import Speaker
from perdure.engine.tidings import Tidings
from perdure.engine.waiter import Around, Waiter
from perdure.errors import WaitInterrupted
from perdure.model.ids import WorkflowId
from perdure.ports.ids import Ids


class OutsideDesk(Desk):
    """Says to the processes that run workflows what is waited for here, and hears of it."""

    def __init__(self, speaker: Speaker, ids: Ids, application: str | None) -> None:
        tasks, store = speaker.tasks, speaker.store
        hints = Hints(tasks, store, ids)
        self._tidings = tidings = Tidings(hints, _nowhere)
        around = Around(_nowhere, self._on_wait, self._on_end)
        waiter = Waiter(tasks, store, speaker.retry, around)
        super().__init__(speaker, waiter, hints, ids, application)
        ear = Ear(Waiting(hints, tidings, waiter, speaker.signals))
        self._listener = Listener(tasks, store, ear)
        speaker.signals.when_begun(self._on_interest)
        self._services = (waiter, hints, self._listener)

    async def open(self) -> None:
        """Begin to talk, to wait and to tell."""
        await self.speaker.open()
        for service in self._services:
            await service.start()

    async def close(self) -> None:
        """End every wait, and tell what is left to tell."""
        self.waiter.fail_all(WaitInterrupted)
        self.speaker.end_waits(patient=True)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.speaker.close)
            stack.push_async_callback(self.hints.flush)
            for service in self._services:
                stack.push_async_callback(service.stop)

    def _on_wait(self, workflow_id: WorkflowId) -> None:
        self._tidings.want(workflow_id)
        self._listener.want()

    def _on_end(self, workflow_id: WorkflowId) -> None:
        self.speaker.signals.hear_end(workflow_id)
        self._tidings.ended(workflow_id)

    def _on_interest(self, interest: Interest) -> None:
        if interest.is_followed:
            self._tidings.want(interest.workflow_id)
        self._listener.want()


def _nowhere(_: WorkflowId) -> bool:
    """No workflow runs here."""
    return False
