"""Steps: calls whose outcome is recorded once."""

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from perdure.api.options import refuse_unknown
from perdure.engine.context import PLACE, StepScope
from perdure.engine.journal import DurableCall
from perdure.engine.registry import DECORATED, Registry
from perdure.engine.run import Run
from perdure.errors import (
    ConfigurationError,
    DatabaseError,
    RegistrationError,
    SerializationError,
    StepRetriesExhausted,
    StepTimeout,
    WaitInterrupted,
)
from perdure.logic.durations import Duration, seconds_of
from perdure.logic.retry import Backoff
from perdure.model.workflow import StepRow
from perdure.serialization import ValueCodec

P = ParamSpec("P")
R = TypeVar("R")


class StepOptions(TypedDict, total=False):
    """Options of a step; every duration is seconds or a timedelta.

    `max_attempts` counts the first attempt. Between attempts it waits `interval`, multiplied by
    `backoff_rate` after each failure, at most `max_interval`, with a random factor between 0.5
    and 1.5 unless `jitter` is off. `retry_if` decides from the error whether another attempt is
    worth it. `timeout` bounds one attempt. A `preemptible` step is stopped when its workflow is
    cancelled; others run to their end.
    """

    name: str
    max_attempts: int
    interval: Duration
    backoff_rate: float
    max_interval: Duration
    jitter: bool
    retry_if: Callable[[BaseException], bool]
    timeout: Duration | None
    preemptible: bool


_DEFAULT_BACKOFF = Backoff(first_s=1.0, rate=2.0, cap_s=3600.0)


class StepPolicy(msgspec.Struct, frozen=True):
    """A step's options, checked."""

    max_attempts: int = 1
    backoff: Backoff = _DEFAULT_BACKOFF
    jitter: bool = True
    retry_if: Callable[[BaseException], bool] | None = None
    timeout_s: float | None = None
    preemptible: bool = False


class Step(Generic[P, R]):
    """A decorated step. Calling it gives an awaitable that has taken its step id.

    `fn` is the plain function. `def` functions run in a worker thread, never on the event loop.
    """

    def __init__(
        self, fn: Callable[P, Awaitable[R]] | Callable[P, R], name: str, policy: StepPolicy
    ) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = name
        self.policy = policy
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(fn))
        self.is_once = policy.max_attempts == 1
        self._codec: tuple[Registry, ValueCodec[Any]] | None = None

    def codec_in(self, registry: Registry) -> ValueCodec[Any]:
        """How results are stored by that engine; the last answer is kept."""
        kept = self._codec
        if kept is None or kept[0] is not registry:
            kept = self._codec = (registry, registry.result_codec(self.fn, self.name))
        return kept[1]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "StepCall[R]":
        """Build the call; `await` it in the same place."""
        return StepCall(self, args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind like a function, so that steps can be methods of ordinary objects."""
        return self if instance is None else functools.partial(self, instance)  # type: ignore[arg-type]


NOT_OF_A_STEP = (DatabaseError, WaitInterrupted)
"""Trouble with a database, or with another engine that stopped, is no outcome of the step."""


class StepCall(DurableCall[R]):
    """One call of a step."""

    __slots__ = ("_args", "_is_backing_off", "_kwargs", "_step")

    def __init__(self, step: Step[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(step.name)
        self._step = step
        self._args = args
        self._kwargs = kwargs
        self._is_backing_off = False

    @property
    def interruptible(self) -> bool:
        """Whether the step may be stopped when its workflow is; between attempts it always may."""
        return self._is_backing_off or self._step.policy.preemptible

    async def plain(self) -> R:
        """Run the function once; options do not apply where nothing is recorded."""
        fn: Callable[..., Any] = self._step.fn
        if self._step.is_async:
            return cast("R", await fn(*self._args, **self._kwargs))
        value = await asyncio.to_thread(_call, fn, self._args, self._kwargs)
        return cast("R", await value if inspect.isawaitable(value) else value)

    async def perform(self, run: Run) -> R:
        """Run the attempts, record the outcome, return or raise what a replay would."""
        kernel = run.kernel
        codec = self._step.codec_in(kernel.registry)
        label = kernel.registry.step_label(run.serialization)
        started_at_ms = kernel.time.now_ms()
        try:
            value = await self._value(run)
            run.check_signal()
            text, value = codec.encode_as(label, value)
        except NOT_OF_A_STEP:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a step raises is its outcome
            return await self._fail(run, started_at_ms, error)
        except asyncio.CancelledError as error:
            if _is_requested(run):
                raise
            return await self._fail(run, started_at_ms, error)
        standing = await kernel.journal.record(
            run,
            self.checkpoint(run, started_at_ms, output=text, serialization=label),
        )
        return cast("R", value) if standing is None else await self.replay(run, standing)

    async def replay(self, run: Run, row: StepRow) -> R:
        """The recorded value, or the recorded error."""
        registry = run.kernel.registry
        if row.child_workflow_id is not None:
            raise run.disagree(row.step_id, f"the step {self.name}", row)
        if row.error is not None:
            raise run.error_of(row)
        codec = self._step.codec_in(registry)
        try:
            return cast("R", codec.decode(row.output, row.serialization))
        except SerializationError as error:
            raise run.unreadable(row.step_id, error) from error

    async def _fail(self, run: Run, started_at_ms: int, error: BaseException) -> R:
        run.check_signal()
        errors = run.kernel.registry.serialization.errors
        label = run.kernel.registry.step_label(run.serialization)
        text = errors.encode_as(label, error)
        standing = await run.kernel.journal.record(
            run, self.checkpoint(run, started_at_ms, error=text, serialization=label)
        )
        if standing is not None:
            return await self.replay(run, standing)
        # What a replay raises, down to its cause, with the traceback that only this run has.
        recorded = errors.decode(text, label)
        raise recorded.with_traceback(error.__traceback__) from recorded.__cause__

    def _value(self, run: Run) -> Awaitable[R]:
        step = self._step
        if step.is_once:
            return self._attempt(StepScope(run, self.known_id, 1, 1))
        return self._attempts(run)

    async def _attempts(self, run: Run) -> R:
        policy = self._step.policy
        failures: list[BaseException] = []
        while True:
            scope = StepScope(run, self.known_id, len(failures) + 1, policy.max_attempts)
            try:
                return await self._attempt(scope)
            except NOT_OF_A_STEP:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a step raises is its outcome
                failures.append(error)
            except asyncio.CancelledError as error:
                if _is_requested(run):
                    raise
                failures.append(error)
            run.check_signal()
            if not self._is_worth_another(failures):
                break
            await self._back_off(run, len(failures))
        if len(failures) == 1:
            raise failures[0]
        raise StepRetriesExhausted(self.name, len(failures), failures)

    async def _back_off(self, run: Run, failures: int) -> None:
        policy = self._step.policy
        factor = run.kernel.ids.jitter() if policy.jitter else 1.0
        self._is_backing_off = True
        try:
            await run.kernel.clock.sleep(policy.backoff.delay_s(failures, factor))
        finally:
            self._is_backing_off = False

    def _is_worth_another(self, failures: list[BaseException]) -> bool:
        policy = self._step.policy
        if len(failures) >= policy.max_attempts:
            return False
        return policy.retry_if is None or policy.retry_if(failures[-1])

    async def _attempt(self, scope: StepScope) -> R:
        step = self._step
        token = PLACE.set(scope)
        try:
            if step.is_async:
                work: Any = cast("Callable[..., Any]", step.fn)(*self._args, **self._kwargs)
            else:
                work = await self._attempt_in_thread(scope)
                if not inspect.isawaitable(work):
                    return cast("R", work)
            if step.policy.timeout_s is None:
                return cast("R", await work)
            return await self._attempt_in_time(scope, work, step.policy.timeout_s)
        except asyncio.CancelledError:
            scope.abandon()
            raise
        finally:
            PLACE.reset(token)

    async def _attempt_in_time(self, scope: StepScope, work: Awaitable[R], timeout_s: float) -> R:
        """An attempt that ran out of time has failed, whatever its code made of being stopped."""
        timer = asyncio.get_running_loop().call_later(timeout_s, scope.abandon)
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                value = await work
        except Exception as error:
            if limit.expired():
                own = not isinstance(error, TimeoutError)
                raise StepTimeout(self.name, timeout_s) from (error if own else None)
            raise
        finally:
            timer.cancel()
        if limit.expired():
            raise StepTimeout(self.name, timeout_s)
        return value

    async def _attempt_in_thread(self, scope: StepScope) -> Any:
        """A thread cannot be stopped: after a timeout its end is awaited only for a new attempt."""
        kernel = scope.run.kernel
        timeout_s = self._step.policy.timeout_s
        context = contextvars.copy_context()
        function = functools.partial(context.run, _call, self._step.fn, self._args, self._kwargs)
        work: asyncio.Future[Any] = kernel.loop.run_in_executor(kernel.threads, function)
        try:
            done, _ = await asyncio.wait([work], timeout=timeout_s)
        except asyncio.CancelledError:
            _ignore_result(work)
            raise
        if done:
            return work.result()
        scope.abandon()
        if scope.attempt < scope.max_attempts:
            await asyncio.wait([work])
        _ignore_result(work)
        raise StepTimeout(self.name, timeout_s or 0)


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call it in a thread; what no future can carry becomes what a coroutine makes of it."""
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError("step raised StopIteration") from error


def _is_requested(run: Run) -> bool:
    """Whether a CancelledError here was asked for by somebody, and so is no failure of the step."""
    task = asyncio.current_task()
    return run.signal is not None or (task is not None and task.cancelling() > 0)


def _ignore_result(work: asyncio.Future[Any]) -> None:
    """An abandoned thread's late result or error is nobody's."""
    work.add_done_callback(lambda done: done.cancelled() or done.exception())


@overload
def step(fn: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(**options: Unpack[StepOptions]) -> "StepDecorator": ...
def step(fn: Any = None, /, **options: Unpack[StepOptions]) -> Any:
    """Make a function a step: its outcome, value or error, is recorded once and then replayed.

    Works bare and with options (see `StepOptions`). The function's effect happens at least once:
    if the process dies after the effect and before the record, the step runs again. Outside a
    workflow, and inside another step, calling it just runs the function.

    >>> @step(max_attempts=5)
    ... async def charge(order: str) -> str: ...
    """
    decorate = StepDecorator(options)
    return decorate if fn is None else decorate(fn)


class StepDecorator:
    """What `step(...)` with options returns."""

    def __init__(self, options: StepOptions) -> None:
        self._options = options
        self._policy = policy_of(options)

    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]]) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Step[P, R]: ...
    def __call__(self, fn: Callable[P, Any]) -> Step[P, Any]:
        """Decorate a function."""
        refuse_generator(fn, "step")
        DECORATED.add_module(fn.__module__)
        name = self._options.get("name", fn.__qualname__)
        return Step(fn, checked_name(name), self._policy)


def run_step(
    name: str, fn: Callable[P, Awaitable[R]] | Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> "StepCall[R]":
    """Run any function as a step under `name`, without decorating it.

    `def` functions run in a worker thread; what a lambda returns there is awaited if it can be.
    The name is what a replay is checked against.
    """
    refuse_generator(fn, "step")
    plain: Step[P, R] = Step(fn, checked_name(name), StepPolicy())
    return StepCall(plain, args, kwargs)


def policy_of(options: StepOptions) -> StepPolicy:
    """The options, checked; raises `ConfigurationError` naming the wrong one."""
    refuse_unknown(options, StepOptions, ConfigurationError)
    attempts = options.get("max_attempts", 1)
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        raise ConfigurationError(
            f"max_attempts={attempts!r}: it counts the first attempt, so it is at least 1"
        )
    rate = options.get("backoff_rate", 2.0)
    if not isinstance(rate, (int, float)) or not rate >= 0:
        raise ConfigurationError(f"backoff_rate={rate!r}: it must be a number not below 0")
    retry_if = options.get("retry_if")
    if retry_if is not None and not callable(retry_if):
        raise ConfigurationError(f"retry_if={retry_if!r}: it must be a function of the error")
    timeout = options.get("timeout")
    return StepPolicy(
        max_attempts=attempts,
        backoff=Backoff(
            first_s=_seconds(options.get("interval", 1.0), "interval"),
            rate=rate,
            cap_s=_seconds(options.get("max_interval", 3600.0), "max_interval"),
        ),
        jitter=options.get("jitter", True),
        retry_if=retry_if,
        timeout_s=None if timeout is None else _seconds(timeout, "timeout", zero=False),
        preemptible=options.get("preemptible", False),
    )


def _seconds(value: Duration, what: str, *, zero: bool = True) -> float:
    return seconds_of(value, what, zero=zero, error=ConfigurationError)


def checked_name(name: str) -> str:
    """A name that can be stored; raises `RegistrationError` otherwise."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise RegistrationError(f"{name!r} cannot be a name: use printable characters")
    return name


def refuse_generator(fn: Callable[..., Any], what: str) -> None:
    """Raise `RegistrationError` for what cannot be called and awaited once."""
    plain = inspect.unwrap(fn)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise RegistrationError(
            f"{getattr(fn, '__qualname__', fn)!s} is a generator function and cannot be a {what}: "
            "its values would be lost at a replay; return a list"
        )
    if not callable(fn):
        raise RegistrationError(f"{fn!r} is not a function and cannot be a {what}")
