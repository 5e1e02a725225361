"""The table of endings: every way a body can end has one fate for its row."""

from __future__ import annotations

import asyncio

import pytest

from perdure.errors import (
    AwaitedWorkflowCancelled,
    DatabaseConflict,
    DatabaseRejected,
    DatabaseUnavailable,
    ForeignCancellation,
    FormatUnavailable,
    LeaseLost,
    RecoveryLimitExceeded,
    RunInterrupted,
    RunLost,
    StepTimeout,
    UndecodableValue,
    UnexpectedStep,
    UnserializableValue,
    WaitInterrupted,
    WorkflowCancelled,
    WorkflowError,
)
from perdure.logic.endings import (
    Ending,
    ending_of,
    ends_process,
    exceeds_limit,
    release_delay_ms,
)


class Private(BaseException):
    """No `Exception`."""


OUTCOMES = [
    ValueError("own"),
    asyncio.CancelledError(),
    TimeoutError(),
    ExceptionGroup("several", [ValueError()]),
    StepTimeout("step", 1.0),
    UnserializableValue("result", "$", "no form"),
    UndecodableValue("arguments", None, "they no longer fit"),
    AwaitedWorkflowCancelled("child"),
    RecoveryLimitExceeded("child", 3),
]
RELEASED = [
    UnexpectedStep("w", 1, "differs"),
    ForeignCancellation("w", "timeout"),
    FormatUnavailable("arguments", "js_superjson", "not read here"),
    DatabaseUnavailable("away"),
    DatabaseConflict("deadlock"),
    DatabaseRejected("refused"),
    LeaseLost("taken"),
    WaitInterrupted("w"),
    SystemExit(3),
    GeneratorExit(),
    Private(),
    BaseExceptionGroup("several", [Private()]),
]


@pytest.mark.parametrize("error", OUTCOMES, ids=lambda error: type(error).__name__)
def test_what_user_code_raises_is_its_outcome(error: BaseException) -> None:
    assert ending_of(error) is Ending.RECORD_ERROR


@pytest.mark.parametrize("error", RELEASED, ids=lambda error: type(error).__name__)
def test_what_is_no_outcome_is_released_and_counted(error: BaseException) -> None:
    assert ending_of(error) is Ending.RELEASE_COUNTED


def test_a_ctrl_c_is_released_and_not_counted() -> None:
    assert ending_of(KeyboardInterrupt()) is Ending.RELEASE_GIVEN_BACK


@pytest.mark.parametrize(
    ("signal", "ending"),
    [
        (WorkflowCancelled("w"), Ending.LEAVE),
        (RunLost("w"), Ending.LEAVE),
        (RunInterrupted("w"), Ending.RELEASE_GIVEN_BACK),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_signal_that_was_sent_decides_and_one_that_was_not_is_a_fault(
    signal: BaseException, ending: Ending
) -> None:
    assert ending_of(signal, of_engine=True) is ending
    assert ending_of(signal) is Ending.RELEASE_COUNTED


@pytest.mark.parametrize("fault", [WorkflowError("w", "not stored"), RecursionError(), KeyError()])
def test_a_fault_of_the_engine_is_never_an_outcome(fault: BaseException) -> None:
    assert ending_of(fault, of_engine=True) is Ending.RELEASE_COUNTED


@pytest.mark.parametrize(
    ("error", "ends"),
    [(SystemExit(), True), (KeyboardInterrupt(), True), (Private(), False), (None, False)],
)
def test_only_exits_and_interrupts_reach_the_owner_of_the_process(
    error: BaseException | None, ends: bool
) -> None:
    assert ends_process(error) is ends


def test_a_released_run_waits_longer_each_time_and_at_most_an_hour() -> None:
    waits = [release_delay_ms(attempts) for attempts in (0, 1, 2, 3, 12, 13, 100, 10_000)]
    assert waits == [1000, 1000, 2000, 4000, 2_048_000, 3_600_000, 3_600_000, 3_600_000]


@pytest.mark.parametrize(("limit", "begins"), [(0, 1), (1, 2), (2, 3), (100, 101)], ids=str)
def test_a_limit_of_m_lets_the_body_begin_m_plus_one_times(limit: int, begins: int) -> None:
    allowed = [attempts for attempts in range(1, 200) if not exceeds_limit(attempts, limit)]
    assert allowed == list(range(1, begins + 1))
