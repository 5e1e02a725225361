"""Workflows made of scopes: a program is a tree, and running it gives what can be compared."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from typing import Any, cast

from hypothesis import strategies as st

from perdure import (
    Selected,
    current,
    gather,
    get_event,
    map,  # noqa: A004 - the field's name
    recv,
    select,
    select_workflow,
    sleep,
    step,
    timeout,
    workflow,
)

Node = list[Any]
"""What a part of a program does: its kind, then what it is made of."""

PLAIN = "step", "fail", "sleep", "child", "recv", "event", "first"
"""The kinds that are one durable call; each has a label and a time in tenths of milliseconds."""


ENDED = "ended"
"""A workflow that programs wait for; it publishes nothing."""


def _times(most: int = 15) -> st.SearchStrategy[int]:
    return st.integers(0, most)


def _calls() -> st.SearchStrategy[Node]:
    kinds = st.sampled_from(["step", "step", *PLAIN])
    return st.tuples(kinds, st.just(""), _times()).map(list)


def _scopes(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(
        st.tuples(st.just("seq"), several).map(list),
        st.tuples(st.just("gather"), several, st.booleans()).map(list),
        st.tuples(st.just("map"), several, st.integers(1, 3)).map(list),
        st.tuples(st.just("select"), several).map(list),
        st.tuples(st.just("timeout"), inner, st.sampled_from([0, 5, 15, 50, 10**6])).map(list),
        st.tuples(st.just("try"), inner).map(list),
    )


PROGRAMS: st.SearchStrategy[Node] = st.recursive(_calls(), _scopes, max_leaves=14).map(
    lambda node: ["seq", [["try", node], ["step", "", 0]]]
)


def labelled(node: Node, label: str = "r") -> Node:
    """The same program with a name of its own for each of its calls."""
    kind, *rest = node
    if kind in PLAIN:
        return [kind, label, rest[1]]
    if kind in ("try", "timeout"):
        return [kind, labelled(rest[0], f"{label}."), *rest[1:]]
    inner = [labelled(each, f"{label}.{index}") for index, each in enumerate(rest[0])]
    return [kind, inner, *rest[1:]]


def has(node: Node, *kinds: str) -> bool:
    """Whether any part of it is of one of these kinds."""
    if node[0] in kinds:
        return True
    if node[0] in PLAIN:
        return False
    parts = [node[1]] if node[0] in ("try", "timeout") else node[1]
    return any(has(part, *kinds) for part in parts)


def is_steady(node: Node) -> bool:
    """Whether nothing in it depends on who is faster: every run leaves the same history."""
    return not has(node, "select", "timeout", "recv", "event", "fail")


class Schedule:
    """Who is faster in one execution: decided by chance, and by another one in the next."""

    def __init__(self) -> None:
        self._chance = random.Random(0)
        self.effects: list[int] = []

    def begin(self, seed: int) -> None:
        """Another execution under another order of tasks."""
        self._chance = random.Random(seed)
        self.effects.clear()

    async def jitter(self, tenths: int = 0) -> None:
        """Let others go first, or not."""
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)
        if tenths and self._chance.random() < 0.5:
            await asyncio.sleep(tenths * self._chance.random() / 10_000)


SCHEDULE = Schedule()


@step(name="note")
async def note(label: str, tenths: int) -> str:
    """Have an effect, and say who had it."""
    await SCHEDULE.jitter(tenths)
    SCHEDULE.effects.append(current().step_id or 0)
    return label


@step(name="fail")
async def fail(label: str, tenths: int) -> str:
    """Fail."""
    await SCHEDULE.jitter(tenths)
    SCHEDULE.effects.append(current().step_id or 0)
    raise ValueError(label)


@workflow(name="small")
async def small(label: str) -> str:
    """A child."""
    await SCHEDULE.jitter()
    return label


@workflow(name="program")
async def program(root: Node) -> Any:
    """Run a program."""
    return _shown(await _perform(root))


def _branch(node: Node) -> Any:
    """A part as a branch: a pending call where it is one, else a coroutine."""
    kind, *rest = node
    if kind in PLAIN:
        label, tenths = rest
        calls: dict[str, Any] = {
            "step": lambda: note(label, tenths),
            "fail": lambda: fail(label, tenths),
            "sleep": lambda: sleep(tenths / 10_000),
            "child": lambda: small(label),
            "recv": lambda: recv("topic", timeout=tenths / 10_000),
            "event": lambda: get_event(ENDED, "nothing", timeout=tenths / 10_000),
            "first": lambda: select_workflow(["nobody", ENDED]),
        }
        return calls[kind]()
    if kind == "gather":
        return gather(*[_branch(each) for each in rest[0]], return_exceptions=rest[1])
    if kind == "map":
        return map(_perform, rest[0], concurrency=rest[1])
    if kind == "select":
        return select(*[_branch(each) for each in rest[0]])
    if kind == "timeout":
        return timeout(_branch(rest[0]), rest[1] / 10_000)
    return _several(kind, rest[0])


async def _perform(node: Node) -> Any:
    await SCHEDULE.jitter()
    return await cast("Awaitable[Any]", _branch(node))


async def _several(kind: str, inner: Any) -> Any:
    if kind == "seq":
        return [await _perform(each) for each in inner]
    try:
        return await _perform(inner)
    except Exception as error:  # noqa: BLE001 - which one it was is the result
        return _shown(error)


def _shown(value: Any) -> Any:
    """A result as JSON has it."""
    if isinstance(value, Selected):
        what = value.error if value.error is not None else value.value
        return ["first", value.index, _shown(what)]
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return [_shown(each) for each in value] if isinstance(value, list) else value
