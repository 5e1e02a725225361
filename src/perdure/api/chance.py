"""Time, chance and new ids: what differs at every look, looked at once."""

import random as dice
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID
from uuid import uuid4 as new_uuid

from perdure.engine.journal import DurableCall
from perdure.engine.run import Run
from perdure.errors import UndecodableValue
from perdure.model.wire import NOW, PORTABLE_JSON, RANDOM, UUID4
from perdure.model.workflow import StepRow
from perdure.serialization import ValueCodec

T = TypeVar("T")


class LookCall(DurableCall[T]):
    """One look at what nobody can foretell; in a workflow a step that records what it gave."""

    __slots__ = ("_kind", "_look")

    def __init__(self, name: str, kind: type[T], look: Callable[[], T]) -> None:
        super().__init__(name)
        self._kind = kind
        self._look = look

    async def plain(self) -> T:
        """Look; nothing is recorded."""
        return self._look()

    async def perform(self, run: Run) -> T:
        """Look, and record it."""
        text, value = self._codec(run).encode(self._look())
        now_ms = run.kernel.time.now_ms()
        checkpoint = self.checkpoint(run, now_ms, output=text, serialization=PORTABLE_JSON)
        standing = await run.kernel.journal.record(run, checkpoint)
        return value if standing is None else await self.replay(run, standing)

    async def replay(self, run: Run, row: StepRow) -> T:
        """What it gave then."""
        try:
            return self._codec(run).decode(row.output, row.serialization)
        except UndecodableValue as error:
            raise run.unreadable(row.step_id, error) from error

    def _codec(self, run: Run) -> ValueCodec[T]:
        return run.kernel.registry.serialization.value(self._kind, self.name)


def now() -> LookCall[datetime]:
    """The instant, in UTC by this process's clock; in a workflow a step, so that a replay has it.

    >>> due = await now() + timedelta(days=3)
    """
    return LookCall(NOW, datetime, lambda: datetime.now(UTC))


def uuid4() -> LookCall[UUID]:
    """A new random UUID; in a workflow a step, so that a replay has the same one.

    >>> key = str(await uuid4())
    """
    return LookCall(UUID4, UUID, new_uuid)


def random() -> LookCall[float]:
    """A number from 0 up to but not including 1; in a workflow a step, so that a replay has it.

    Not for secrets.

    >>> is_in_trial = await random() < 0.1
    """
    return LookCall(RANDOM, float, dice.random)
