"""Faults of other libraries in what values may hold: each must be impossible here."""

from __future__ import annotations

import pytest

from perdure import (
    current,
    get_event,
    recv,
    send,
    set_event,
    step,
    workflow,
    write_stream,
)
from tests.support.engines import Lab

ODD = "nul \x00, half \ud800, byte \udc80"
"""No database stores it as it is."""


@step(name="echoes")
async def echoes(word: str) -> str:
    return word


@step(name="fails")
async def fails(word: str) -> None:
    raise ValueError(word)


@workflow(name="fails too")
async def fails_too(word: str) -> None:
    await fails(word)


@workflow(name="tells")
async def tells(word: str) -> list[str | None]:
    """The word, as it comes back from everywhere it can be put."""
    me = current().workflow_id or ""
    heard = [word, await echoes(word)]
    await set_event("key", word)
    await write_stream("log", word)
    await send(me, word)
    heard += [await recv(timeout=0), await get_event(me, "key", timeout=0)]
    for failing in (fails, fails_too):
        try:
            await failing(word)
        except ValueError as error:
            heard.append(str(error))
    return heard


async def test_what_no_database_stores_comes_back_from_everywhere(lab: Lab) -> None:
    """B141, B143: nothing that holds it stays PENDING, and no failure fails to be recorded."""
    engine = await lab.start(tells, fails_too)
    assert await tells.options(id="w")(ODD) == [ODD] * 6
    await lab.rerun("w")
    assert await engine.handle("w", tells) == [ODD] * 6
    assert [value async for value in engine.handle("w").stream("log", timeout=0)] == [ODD]
    assert await engine.handle("w").events() == {"key": ODD}
    with pytest.raises(ValueError, match="nul") as caught:
        await fails_too.options(id="f")(ODD)
    assert caught.value.args == (ODD,)
    assert await lab.state("f") == "ERROR"
