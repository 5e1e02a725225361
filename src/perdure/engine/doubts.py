"""Receivers look again after an attempt whose answer was lost.

Such an attempt may still be under way in the database, and take a message when the next one has
found none already. Its receiver would hear nothing: a message that was taken calls nobody.
"""

from collections.abc import Awaitable, Callable, Sequence

from perdure.engine.services import Loop, Tasks
from perdure.engine.signals import Signals
from perdure.errors import DatabaseUnavailable
from perdure.model.answer import Answer
from perdure.model.talk import Receiving
from perdure.model.workflow import StepRow
from perdure.ports.clock import Clock
from perdure.ports.store.hints import MESSAGE

LOOKS_S = (1.0, 60.0)
"""How long after the loss: at first when it is over as a rule, then when no statement lives."""

Receive = Callable[[Sequence[Receiving]], Awaitable[list[Answer[StepRow]]]]


class Doubts(Loop):
    """Passes attempts to receive on, and lets all who wait look again after one that was lost."""

    def __init__(self, tasks: Tasks, clock: Clock, signals: Signals, receive: Receive) -> None:
        super().__init__(tasks, "doubts")
        self._clock = clock
        self._signals = signals
        self._receive = receive
        self._looks_s: list[float] = []

    async def receive(self, items: Sequence[Receiving]) -> list[Answer[StepRow]]:
        """What the store answers."""
        try:
            return await self._receive(items)
        except DatabaseUnavailable:
            now_s = self._clock.monotonic()
            self._looks_s = [now_s + after_s for after_s in LOOKS_S]
            self.wake()
            raise

    async def turn(self) -> float | None:
        """Let receivers look, if it is time."""
        now_s = self._clock.monotonic()
        later = [look_s for look_s in self._looks_s if look_s > now_s]
        if len(later) < len(self._looks_s):
            self._looks_s = later
            self._signals.hear_every(MESSAGE)
        return later[0] - now_s if later else None
