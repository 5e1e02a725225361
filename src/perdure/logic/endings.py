"""How every ending of a run leaves its row: one table.

| the body …                                    | the row                            | the attempt |
|-----------------------------------------------|------------------------------------|-------------|
| returned a value                              | SUCCESS with the value             |             |
| returned what cannot be stored                | ERROR with the serialization error |             |
| raised an exception, a stray CancelledError   | ERROR with it                      |             |
| could not begin: its arguments cannot be read | ERROR with the reason              |             |
| could not begin: a format not enabled here    | released, after a back-off         | counted     |
| met a history its code does not match         | released, after a back-off         | counted     |
| had a durable call cancelled from outside     | released, after a back-off         | counted     |
| was cancelled itself, by nobody of the engine | released, after a back-off         | counted     |
| met trouble with a database or another engine | released, after a back-off         | counted     |
| left by SystemExit or another BaseException   | released, after a back-off         | counted     |
| left by KeyboardInterrupt                     | released                           | given back  |
| was interrupted by a shutdown                 | released                           | given back  |
| raised a control signal that nobody sent      | released, after a back-off         | counted     |
| failed by a fault of the engine               | released, after a back-off         | counted     |
| ran past its deadline                         | CANCELLED                          |             |
| was begun more often than its limit allows    | MAX_RECOVERY_ATTEMPTS_EXCEEDED     |             |
| was cancelled or taken over by somebody       | left as they made it               |             |

A function that is not registered here is never claimed here, so it has no line.
"""

import asyncio
from enum import Enum, auto

from perdure.errors import (
    ControlSignal,
    DatabaseError,
    ForeignCancellation,
    FormatUnavailable,
    RunInterrupted,
    UnexpectedStep,
    WaitInterrupted,
)
from perdure.logic.retry import RELEASED


class Ending(Enum):
    """What becomes of the row."""

    RECORD_ERROR = auto()
    RELEASE_COUNTED = auto()
    RELEASE_GIVEN_BACK = auto()
    LEAVE = auto()


def ending_of(error: BaseException, *, of_engine: bool = False) -> Ending:
    """The row's fate when the body ended by `error`.

    `of_engine` marks an exception that no user code raised: a signal that was sent to the run, or
    a fault. A result needs no rule: it is recorded, or its serialization error is.
    """
    if isinstance(error, KeyboardInterrupt):
        return Ending.RELEASE_GIVEN_BACK
    if isinstance(error, ControlSignal) and of_engine:
        interrupted = isinstance(error, RunInterrupted)
        return Ending.RELEASE_GIVEN_BACK if interrupted else Ending.LEAVE
    if of_engine or isinstance(error, _NOT_AN_OUTCOME):
        return Ending.RELEASE_COUNTED
    if isinstance(error, (Exception, asyncio.CancelledError)):
        return Ending.RECORD_ERROR
    return Ending.RELEASE_COUNTED


def ends_process(error: BaseException | None) -> bool:
    """Whether the exception must reach the owner of the process, whatever becomes of the row."""
    return isinstance(error, (KeyboardInterrupt, SystemExit))


_NOT_AN_OUTCOME = (
    UnexpectedStep,
    ForeignCancellation,
    FormatUnavailable,
    DatabaseError,
    WaitInterrupted,
)


def release_delay_ms(attempts: int) -> int:
    """How long a released run waits before its next claim, by its attempts so far."""
    return int(RELEASED.delay_s(max(attempts, 1)) * 1000)


def exceeds_limit(attempts: int, max_recovery_attempts: int) -> bool:
    """Whether the claim that made `attempts` is one too many.

    The first execution is attempt 1, so a limit of m lets the body begin m + 1 times.
    """
    return attempts > max_recovery_attempts + 1
