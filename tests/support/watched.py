"""A store that notes what it is asked for, and holds or fails what a test wants it to."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from perdure.ports.store import Store
from tests.support.waiting import DEADLINE_S


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a method, with its positional arguments."""

    method: str
    args: tuple[Any, ...]

    @property
    def items(self) -> list[Any]:
        """The batch of a hot write."""
        return list(self.args[0])


class Gate:
    """Holds one call, before or after the store did it."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._opened = asyncio.Event()

    async def reached(self) -> None:
        """Wait until a call stands at the gate."""
        async with asyncio.timeout(DEADLINE_S):
            await self._reached.wait()

    def open(self) -> None:
        """Let it pass."""
        self._opened.set()

    async def pass_through(self) -> None:
        """What the call does at the gate."""
        self._reached.set()
        await self._opened.wait()


@dataclass(slots=True)
class Rule:
    """What happens to the next calls of a method."""

    times: int
    error: BaseException | None = None
    gate: Gate | None = None
    after: bool = False

    async def apply(self) -> None:
        """Hold, then fail, as told."""
        if self.gate is not None:
            await self.gate.pass_through()
        if self.error is not None:
            raise self.error


@dataclass
class WatchedStore:
    """Passes every call on to `inner`, and keeps the list of them."""

    inner: Store
    calls: list[Call] = field(default_factory=list)
    _rules: dict[str, list[Rule]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        target = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(target):
            return target

        async def watched(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(Call(name, args))
            rule = self._next_rule(name)
            if rule is None:
                return await target(*args, **kwargs)
            if not rule.after:
                await rule.apply()
            result = await target(*args, **kwargs)
            if rule.after:
                await rule.apply()
            return result

        return watched

    def _next_rule(self, method: str) -> Rule | None:
        rules = self._rules.get(method, [])
        if not rules:
            return None
        rules[0].times -= 1
        return rules[0] if rules[0].times else rules.pop(0)

    def hold(self, method: str, *, after: bool = False) -> Gate:
        """Hold the next call of a method, before the store does it or (`after`) its answer."""
        gate = Gate()
        self._rules.setdefault(method, []).append(Rule(1, gate=gate, after=after))
        return gate

    def fail(
        self, method: str, error: BaseException, *, times: int = 1, after: bool = False
    ) -> None:
        """Fail the next calls of a method; `after` the store did what they asked for."""
        self._rules.setdefault(method, []).append(Rule(times, error=error, after=after))

    def heal(self, method: str) -> None:
        """Hold and fail no further calls of a method."""
        self._rules.pop(method, None)

    def forget(self) -> None:
        """Empty the list of calls."""
        self.calls.clear()

    @property
    def counts(self) -> Counter[str]:
        """How often each method was called."""
        return Counter(call.method for call in self.calls)

    def batches(self, method: str) -> list[list[Any]]:
        """What each call of a hot write asked for."""
        return [call.items for call in self.calls if call.method == method]
