"""Waiting for several durable calls together."""

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any, Literal, TypeVar, overload

import msgspec

from perdure.engine.journal import PendingCall
from perdure.errors import ControlSignal, WrongPlace

T = TypeVar("T")


class _Raised(msgspec.Struct, frozen=True):
    error: BaseException


@overload
async def gather(*calls: PendingCall[T], return_exceptions: Literal[False] = False) -> list[T]: ...
@overload
async def gather(*calls: PendingCall[T], return_exceptions: bool) -> list[T | BaseException]: ...
async def gather(*calls: PendingCall[Any], return_exceptions: bool = False) -> list[Any]:
    """Wait for durable calls together; results come in the order of the calls.

    It takes no step id of its own. It waits until every call has an outcome, and then raises the
    failure of the first call in the list that failed; with `return_exceptions` failures are
    returned in their place instead. Each call keeps the id it took when it was built, so the order
    in which they finish does not matter to a replay.

    >>> one, two = await gather(fetch("a"), fetch("b"))
    """
    for call in calls:
        _refuse_coroutine(call)
    outcomes = await asyncio.gather(*(_outcome(call) for call in calls))
    for outcome in outcomes:
        if isinstance(outcome, _Raised) and not isinstance(outcome.error, Exception):
            raise outcome.error
    results: list[Any] = []
    for outcome in outcomes:
        if isinstance(outcome, _Raised):
            if not return_exceptions:
                raise outcome.error
            results.append(outcome.error)
        else:
            results.append(outcome)
    return results


async def _outcome(call: Awaitable[Any]) -> Any:
    """The call's result or failure as a value: a raised SystemExit would tear the loop down."""
    try:
        return await call
    except (Exception, ControlSignal, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - carried to where the results are looked at
        return _Raised(error)


def _refuse_coroutine(call: object) -> None:
    if isinstance(call, PendingCall):
        return
    if inspect.iscoroutine(call):
        call.close()
    raise WrongPlace(
        f"gather takes durable calls (steps, sleeps, workflows, results), not {call!r}; move work "
        "of several steps into a child workflow and gather its call"
    )
