"""Workflows and steps that several tests need."""

from __future__ import annotations

from typing import Any

from perdure import sleep, step, workflow
from perdure.api.step import Step
from perdure.api.workflow import Workflow


class Spoilt(Exception):
    """An application's own error."""


@step(name="look")
async def look() -> None:
    """Do nothing, in a step."""


@workflow(name="child")
async def child(word: str) -> str:
    """The word in capitals; `fail` raises `Spoilt`."""
    if word == "fail":
        raise Spoilt("as asked")
    return word.upper()


@workflow(name="naps")
async def naps(seconds: float) -> str:
    """Sleep that long."""
    await sleep(seconds)
    return "awake"


def calling(each: Step[[], Any]) -> Workflow[[], Any]:
    """A workflow named `calls` that calls the step once."""

    @workflow(name="calls")
    async def calls() -> Any:
        return await each()

    return calls
