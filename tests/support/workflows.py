"""Workflows that several tests need."""

from __future__ import annotations

from typing import Any

from perdure import workflow
from perdure.api.step import Step
from perdure.api.workflow import Workflow


def calling(each: Step[[], Any]) -> Workflow[[], Any]:
    """A workflow named `calls` that calls the step once."""

    @workflow(name="calls")
    async def calls() -> Any:
        return await each()

    return calls
