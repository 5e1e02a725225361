"""Workflows that do something of everything, which notes what it really does."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import perdure
from perdure import (
    current,
    gather,
    recv,
    select,
    set_event,
    sleep,
    step,
    timeout,
    workflow,
    write_stream,
)
from tests.support.engines import Lab

DAY = 86_400

ran: defaultdict[str, list[str]] = defaultdict(list)
"""By workflow, the words its steps were run with."""

LOSERS = {"g0", "t0", "x0"}
"""What is run beside the branch that decides, or is not."""


def note(word: str) -> str:
    """Say that a step of the running workflow runs."""
    ran[str(current().workflow_id)].append(word)
    return word


@step(name="do")
async def do(word: str) -> str:
    """The word."""
    return note(word)


@step(name="break")
async def break_down(word: str) -> str:
    """Fail."""
    raise ValueError(note(word))


async def leg(name: str, count: int) -> list[str]:
    """Several steps of one branch."""
    return [await do(f"{name}{number}") for number in range(count)]


async def endless(name: str) -> None:
    """A step, and then nothing for a day."""
    await do(f"{name}0")
    await sleep(DAY)


async def broken(name: str) -> str:
    """A branch that fails after a step."""
    await do(f"{name}0")
    return await break_down(f"{name}1")


@workflow(name="tour")
async def tour() -> list[Any]:
    """Every kind of scope between plain steps; none of them stops for a day."""
    begun = await do("begin")
    pair = await gather(leg("a", 2), leg("b", 3))
    first = await select(quick=leg("c", 2), never=endless("x"))
    limited = await timeout(gather(leg("d", 2), leg("e", 1)), DAY)
    mapped = await perdure.map(do, ["f0", "f1", "f2"])
    try:
        await gather(leg("g", 1), broken("h"))
    except ValueError as error:
        failed = str(error)
    try:
        await timeout(endless("t"), 0.05)
    except TimeoutError:
        late = True
    return [begun, pair, first.name, first.value, limited, mapped, failed, late, await do("end")]


TOUR = [
    "begin",
    [["a0", "a1"], ["b0", "b1", "b2"]],
    "quick",
    ["c0", "c1"],
    [["d0", "d1"], ["e0"]],
    ["f0", "f1", "f2"],
    "h1",
    True,
    "end",
]


async def taken(lab: Lab, workflow_id: str) -> dict[int, str]:
    """The words of a tour by the steps that were recorded for them."""
    return {
        row["function_id"]: "h1" if row["error"] else json.loads(row["output"])
        for row in await lab.steps(workflow_id)
        if row["function_name"] in {"do", "break"}
    }


@workflow(name="talker")
async def talker() -> list[Any]:
    """Two messages, each published under `k` and appended to `s`: steps 1 to 4 and 5 to 8."""
    heard = []
    for _ in range(2):
        heard.append(await recv(timeout=DAY))
        await set_event("k", heard[-1])
        await write_stream("s", heard[-1])
    return heard


@step(name="report")
async def report(word: str) -> str:
    """Append from inside a step."""
    await write_stream("s", note(word))
    return word


@workflow(name="reporter")
async def reporter(words: list[str]) -> list[str]:
    """A report of each word."""
    return [await report(word) for word in words]


@workflow(name="minor")
async def minor(word: str) -> str:
    """One step; it fails for a word that is said to be bad."""
    if word in bad:
        return await break_down(word)
    return await do(word)


bad: set[str] = set()


@workflow(name="major")
async def major(word: str) -> list[str]:
    """Start a child, do something, wait for the child, do something: steps 1 to 4."""
    child = await minor.start(word)
    return [await do("between"), await child.result(), await do("end")]
