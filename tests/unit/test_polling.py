"""When to ask the database about what is waited for."""

from __future__ import annotations

import asyncio

import pytest

from perdure.engine.polling import Rest


async def test_a_rest_is_in_proportion_to_what_the_asking_took() -> None:
    rest = Rest(0.0, 10_000.0)
    assert rest.left_s() == 0
    with rest.after():
        await asyncio.sleep(0.001)
    assert rest.left_s() > 5


async def test_after_the_quickest_asking_there_is_a_rest() -> None:
    rest = Rest(500.0, 0.0)
    with rest.after():
        pass
    assert 400 < rest.left_s() <= 500


async def test_after_an_asking_that_failed_there_is_none() -> None:
    rest = Rest(500.0, 0.0)
    with pytest.raises(ValueError, match="broken"), rest.after():
        raise ValueError("broken")
    assert rest.left_s() == 0
