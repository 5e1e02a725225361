"""Several branches of a workflow at a time, replayed as they went."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Generic, Literal, Self, TypeVar, cast, overload

from perdure.engine.journal import PendingCall
from perdure.engine.race import BranchOf, Ended, bounded, lose, refuse_branches, spend
from perdure.engine.run import Run
from perdure.engine.scopes import ScopeCall
from perdure.errors import InvalidArgument, PerdureError
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.logic.scopes import BY_TIME

T = TypeVar("T")
Item = TypeVar("Item")

Pending = PendingCall[T] | Coroutine[Any, Any, T]
"""What can be a branch: a durable call that was built and not awaited, or a coroutine."""


class GatherCall(ScopeCall[list[T]]):
    """All branches, to their end."""

    __slots__ = ("_at_once", "_returns_errors")

    def __init__(
        self,
        branches: Sequence[BranchOf],
        *,
        name: str = "Perdure.gather",
        returns_errors: bool = False,
        at_once: int | None = None,
    ) -> None:
        self._returns_errors = returns_errors
        self._at_once = at_once
        super().__init__(name, branches)

    @property
    def at_once(self) -> int:
        """How many branches run at a time."""
        return self._at_once or super().at_once

    def decides(self, ended: Ended) -> bool:
        """A failing branch, unless failures are results, or there are only pending calls: those
        are all recorded first."""
        return self.is_numbered and not self._returns_errors and ended.error is not None

    def conclude(self, branch: int, ended: Ended) -> list[T]:
        """Raise the failure."""
        del branch
        return cast("list[T]", ended.result())

    def collect(self, ends: Sequence[Ended]) -> list[T]:
        """The results in the order of the branches, or the failure of the first that failed."""
        if not self._returns_errors:
            return [end.result() for end in ends]
        return cast("list[T]", [end.value if end.error is None else end.error for end in ends])

    async def plain(self) -> list[T]:
        """The same without records."""
        async with _PlainRace(self.branches, self.at_once) as race:
            async for ended in race:
                if ended.is_signal or (ended.error and self._fails_fast):
                    ended.result()
            return self.collect(race.ends)

    @property
    def _fails_fast(self) -> bool:
        calls_alone = all(isinstance(branch, PendingCall) for branch in self.branches)
        return not (self._returns_errors or calls_alone)


class _PlainRace:
    """Branches at a time where nothing is recorded: what ended, in the order in which it did."""

    def __init__(self, branches: Sequence[BranchOf], at_once: int) -> None:
        self._branches = branches
        self._places = asyncio.Semaphore(at_once)
        self._ended: asyncio.Queue[int] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self.ends = [Ended()] * len(branches)

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._run(index, branch))
            for index, branch in enumerate(self._branches)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for branch in self._branches:
            spend(branch)

    async def __aiter__(self) -> AsyncIterator[Ended]:
        for _ in self._branches:
            yield self.ends[await self._ended.get()]

    async def first(self) -> int:
        """The branch that ended first, of several the first in the list."""
        ended = [await self._ended.get()]
        while not self._ended.empty():
            ended.append(self._ended.get_nowait())
        return min(ended)

    async def _run(self, index: int, branch: BranchOf) -> None:
        """A raised SystemExit would tear the loop down: it is carried to who looks at the ends."""
        async with self._places:
            try:
                ended = Ended(await (branch() if callable(branch) else branch))
            except BaseException as error:  # noqa: BLE001 - see above
                ended = Ended(error=error)
        self.ends[index] = ended
        self._ended.put_nowait(index)


@overload
def gather(*branches: Pending[T], return_exceptions: Literal[False] = False) -> GatherCall[T]: ...
@overload
def gather(*branches: Pending[T], return_exceptions: bool) -> GatherCall[T | BaseException]: ...
def gather(*branches: Pending[Any], return_exceptions: bool = False) -> GatherCall[Any]:
    """Wait for branches together; results come in the order of the branches.

    Of durable calls alone it takes no step id: it waits until every call has an outcome, and then
    raises the failure of the first call in the list that failed. With coroutines among them it is a
    scope: the first failure ends it, the other branches are stopped, and a replay follows the
    branch that failed. With `return_exceptions` all run to their end and failures are returned in
    their place. A coroutine may make any durable calls; their ids do not depend on the order in
    which branches proceed. Branches share nothing but what they return.

    >>> one, two = await gather(fetch("a"), fetch("b"))
    """
    refuse_branches("gather", branches)
    return GatherCall(branches, returns_errors=return_exceptions)


def map(  # noqa: A001 - the name the field uses for it
    fn: Callable[[Item], Awaitable[T]],
    items: Iterable[Item],
    *,
    concurrency: int | None = None,
    return_exceptions: bool = False,
) -> GatherCall[T]:
    """Call `fn` with every item, at most `concurrency` at a time; results in the order of items.

    Each call is a branch of a scope as in `gather`. The items must be the same at a replay: what
    they are made of must be recorded, or an argument.

    >>> pages = await map(fetch, urls, concurrency=10)
    """
    at_once = bounded(concurrency, "concurrency")
    branches = [partial(_apply, fn, item) for item in items]
    return GatherCall(
        branches, name="Perdure.map", returns_errors=return_exceptions, at_once=at_once
    )


async def _apply(fn: Callable[[Item], Awaitable[T]], item: Item) -> T:
    return await fn(item)


class Selected(Generic[T]):
    """Which branch of a `select` came first, and with what.

    `name` is the keyword the branch was given with, None for a positional one; `error` is what it
    raised, if it failed. For `match`: `case Selected("late"): …`.
    """

    __slots__ = ("_value", "error", "index", "name")
    __match_args__ = ("name",)

    def __init__(self, index: int, name: str | None, ended: Ended) -> None:
        self.index = index
        self.name = name
        self.error = ended.error
        self._value = ended.value

    @property
    def value(self) -> T:
        """What the branch returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return cast("T", self._value)

    def __repr__(self) -> str:
        what = f"error={self.error!r}" if self.error is not None else f"value={self._value!r}"
        return f"Selected(index={self.index}, name={self.name!r}, {what})"


class SelectCall(ScopeCall[Selected[T]]):
    """The first branch to end."""

    __slots__ = ("_names",)

    def __init__(
        self,
        branches: Sequence[BranchOf],
        names: Sequence[str | None],
        refusal: PerdureError | None,
    ) -> None:
        self._names = names
        super().__init__("Perdure.select", branches, refusal)

    @property
    def _is_recorded(self) -> bool:
        return True

    def decides(self, ended: Ended) -> bool:
        """Whatever it ended with."""
        del ended
        return True

    def conclude(self, branch: int, ended: Ended) -> Selected[T]:
        """The winner."""
        return Selected(branch, self._names[branch], ended)

    def collect(self, ends: Sequence[Ended]) -> Selected[T]:
        """Never asked: the first decides."""
        raise AssertionError(len(ends))

    async def plain(self) -> Selected[T]:
        """A race that nobody records."""
        async with _PlainRace(self.branches, self.at_once) as race:
            first = await race.first()
            ended = race.ends[first]
        lose(self.branches, first)
        if ended.is_signal:
            ended.result()
        return self.conclude(first, ended)


def select(*branches: Pending[T], **named: Pending[T]) -> SelectCall[T]:
    """Wait until the first branch has ended, and stop the others: a durable race.

    Which one it was is recorded before anything else happens, and a replay follows that one alone.
    Of branches that end at the same moment the first in the list wins. A failure wins as well: see
    `Selected.error`. A step that loses is stopped and records nothing; the thread of a `def` step
    is left to itself, with its cancellation token fired; a child workflow goes on and only the wait
    for it ends; a message that was taken and that no code has seen is put back.

    >>> first = await select(answer=recv("answer"), late=sleep(hours=24))
    >>> match first:
    ...     case Selected("answer"):
    ...         print(first.value)
    """
    every: list[Any] = [*branches, *named.values()]
    names: list[str | None] = [*[None] * len(branches), *named]
    refusal = None if every else InvalidArgument("select needs at least one branch")
    refuse_branches("select", every)
    return SelectCall(every, names, refusal)


class TimeoutCall(ScopeCall[T]):
    """One branch, and a limit to its time."""

    __slots__ = ("_seconds",)

    def __init__(self, branch: BranchOf, seconds: float) -> None:
        self._seconds = seconds
        super().__init__("Perdure.timeout", [branch])

    @property
    def _is_recorded(self) -> bool:
        return True

    def limit_s(self, run: Run) -> float | None:
        """What is left until the instant that the open row holds."""
        return max(run.kernel.time.seconds_until(self._until_ms or 0), 0.0)

    async def begin(self, run: Run) -> None:
        """Fix the instant and record it, so that a restart gives no more time."""
        if self._until_ms is None:
            self._until_ms = run.kernel.time.now_ms() + to_ms(self._seconds)
        row = self.opening()
        if row is not None:
            standing = await run.kernel.journal.record(run, row)
            if standing is not None:
                raise run.disagree(row.step_id, row.name, standing)
            self.opened()

    def decides(self, ended: Ended) -> bool:
        """Whatever it ended with in time."""
        del ended
        return True

    def conclude(self, branch: int, ended: Ended) -> T:
        """The branch's result, or that it took too long."""
        if branch == BY_TIME:
            raise TimeoutError(f"not done within {self._seconds:g} s")
        return cast("T", ended.result())

    def collect(self, ends: Sequence[Ended]) -> T:
        """Never asked: its branch decides."""
        raise AssertionError(len(ends))

    async def plain(self) -> T:
        """A limit that nobody records."""
        (branch,) = self.branches
        async with asyncio.timeout(self._seconds):
            return cast("T", await (branch() if callable(branch) else branch))


def timeout(branch: Pending[T], limit: Duration) -> TimeoutCall[T]:
    """Give a branch a limited time, durably: the instant is recorded and survives restarts.

    Raises `TimeoutError` when it has passed; the branch is stopped as by `select`, and a replay
    comes to the same end. `limit` is seconds or a timedelta.

    >>> report = await timeout(collect(sources), 300)
    """
    refuse_branches("timeout", [branch])
    return TimeoutCall(branch, seconds_of(limit, "limit"))
