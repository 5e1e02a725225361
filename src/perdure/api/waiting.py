"""What the calls that wait for something said have in common: their time limit and their place."""

from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple, TypeVar

import msgspec

from perdure.api.running import RUNNING, check_loop
from perdure.engine.context import PLACE, Branch, StepScope
from perdure.engine.journal import DurableCall
from perdure.engine.kernel import Kernel
from perdure.engine.run import Run
from perdure.engine.signals import Subscription
from perdure.engine.talk import Speaker
from perdure.errors import NotRunning, PerdureError, UndecodableValue, WrongPlace
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.model.ids import StepId
from perdure.model.wire import PICKLED_NONE, PORTABLE_JSON, PY_PICKLE, SLEEP
from perdure.model.workflow import Checkpoint, StepRow
from perdure.ports.clock import Clock
from perdure.serialization import ValueCodec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Left = Callable[[], float | None]
"""Seconds that are left, not below 0; None for ever."""

NOTHING = ("null", PORTABLE_JSON)
"""How it is recorded that nothing came in time."""

_NOTHING: Final = frozenset([NOTHING, *((text, PY_PICKLE) for text in PICKLED_NONE)])
"""Also by the Python SDK, whose workflows may go on here; not loaded to be known."""


def countdown(clock: Clock, timeout_s: float | None) -> Left:
    """What is left of that time from now on."""
    if timeout_s is None:
        return lambda: None
    end_s = clock.monotonic() + timeout_s
    return lambda: max(end_s - clock.monotonic(), 0.0)


class Limit(NamedTuple):
    """Until when a call waits; `row` is the record of it that is not written yet."""

    until_ms: float | None
    row: Checkpoint | None

    def left_s(self, kernel: Kernel) -> float | None:
        """Seconds that are left, not below 0; None for ever."""
        if self.until_ms is None:
            return None
        return max(kernel.time.seconds_until(self.until_ms), 0.0)


class TimedCall(DurableCall[T_co]):
    """A call that waits, with a second id for its time limit.

    The limit's row is that of a sleep whose end is the instant, so that a restart waits no longer.
    It is written when the call begins to wait, and not if there is nothing to wait for.
    """

    __slots__ = ("_limit_id", "_timeout_s")

    waits: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        limit: Duration | None,
        refusal: PerdureError | None = None,
        *,
        is_plain: bool = False,
    ) -> None:
        timeout_s: float | None = None
        if refusal is None and limit is not None:
            try:
                timeout_s = seconds_of(limit, "timeout")
            except PerdureError as error:
                refusal = error
        super().__init__(name, refusal, is_plain=is_plain)
        self._timeout_s = timeout_s
        self._limit_id: StepId | None = None
        place = self._place
        if self.step_id is not None and type(place) is Branch:
            self._limit_id = place.numbering.take()

    def limit(self, run: Run) -> Limit:
        """The instant that was recorded, else one from now on and the row to record."""
        if self._timeout_s is None or self._limit_id is None:
            return Limit(None, None)
        row = run.recorded(self._limit_id, SLEEP)
        if row is not None:
            return Limit(self._recorded_ms(run, row), None)
        now_ms = run.kernel.time.now_ms()
        until_ms = now_ms + to_ms(self._timeout_s)
        checkpoint = Checkpoint(
            run.workflow_id,
            run.owner,
            self._limit_id,
            SLEEP,
            msgspec.json.encode(until_ms / 1000).decode(),
            None,
            None,
            now_ms,
            now_ms,
            PORTABLE_JSON,
        )
        return Limit(until_ms, checkpoint)

    def _recorded_ms(self, run: Run, row: StepRow) -> float:
        try:
            return msgspec.json.decode(row.output or "", type=float) * 1000
        except msgspec.MsgspecError as error:
            raise run.disagree(row.step_id, SLEEP, row) from error


async def heard(speaker: Speaker, ear: Subscription, left_s: float | None) -> None:
    """Wait until there is reason to look again, at most that many seconds."""
    if left_s is None:
        await ear.wait()
        return
    timer = speaker.tasks.branch(_rest(speaker.clock, left_s))
    timer.add_done_callback(lambda _: ear.hear())
    try:
        await ear.wait()
    finally:
        timer.cancel()


async def _rest(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


def found(
    run: Run, step_id: StepId, text: str | None, label: str | None, codec: ValueCodec[T]
) -> T | None:
    """The value that is recorded, None where nothing came in time."""
    if (text, label) in _NOTHING:
        return None
    try:
        return codec.decode(text, label)
    except UndecodableValue as error:
        raise run.unreadable(step_id, error) from error


def body_only(what: str) -> PerdureError | None:
    """Why a call that only a workflow's body can make is refused here."""
    place = PLACE.get()
    if type(place) is Branch:
        return None
    if type(place) is StepScope:
        return WrongPlace(f"{what} has no meaning inside a step; call it in the workflow's body")
    return NotRunning(f"{what} was called outside a workflow; it belongs to a workflow's body")


def is_plain(chosen: Speaker | None) -> bool:
    """Whether a call was made on a client: then it is nowhere a step."""
    return chosen is not None and not chosen.records


def speaker_here(what: str, chosen: Speaker | None = None) -> Speaker:
    """Whom a call talks through: its run's engine, the one it was made on, or the only one."""
    place = PLACE.get()
    if place is None or is_plain(chosen):
        speaker = chosen or RUNNING.only_one(what).talk
        speaker.check_open()
    else:
        own = place.run.kernel.talk
        if chosen not in (None, own) and type(place) is Branch:
            raise WrongPlace(
                f"{what} was called on another engine inside a workflow; the history of a workflow "
                "lives in one database: do it in a step"
            )
        speaker = chosen or own
    check_loop(speaker)
    return speaker
