"""A bad deploy breaks a batch of orders, and one call repairs all of them.

Version 2026-12-02 has lost the postage of two countries, so that orders from there fail in their
second step. The operator lists what failed, deploys the fix, and forks it from the step that
failed: nobody is charged again. Stop it at any moment, with Ctrl-C or `kill -9`, and start it
again: it goes on, and what was done is not done again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure import Engine, LastStep, join, step, workflow

BROKEN, FIXED = "2026-12-02", "2026-12-03"
CODE = {BROKEN: {"AT": 4}, FIXED: {"AT": 4, "CH": 9, "NO": 14}}  # what a deploy brings
COUNTRIES = ["AT", "CH", "NO", "CH", "AT", "NO"]
ORDERS = {f"order-{number}": country for number, country in enumerate(COUNTRIES, start=1)}

postage: dict[str, int] = {}


@step
async def charge(order: str) -> None:
    """What nobody wants twice."""
    print(f"{order} is charged")


@step
async def frank(order: str, country: str) -> int:
    """What the broken code cannot do for every country."""
    stamps = postage[country]
    print(f"{order} is franked with {stamps}")
    return stamps


@step
async def hand_over(order: str) -> None:
    """What is left to do."""
    await asyncio.sleep(0.2)
    print(f"{order} is on its way")


@workflow
async def ship(order: str, country: str) -> int:
    """One order: what is recorded is not done again, neither here nor in a fork."""
    await charge(order)
    stamps = await frank(order, country)
    await hand_over(order)
    return stamps


@asynccontextmanager
async def deployed(version: str) -> AsyncIterator[Engine]:
    """A process of that version; it would be one of its own elsewhere."""
    postage.clear()
    postage.update(CODE[version])
    async with Engine("sqlite:///repair.db", version=version) as engine:
        yield engine


async def repair(engine: Engine) -> None:
    """What the operator does once the fix is deployed; nothing where it was done."""
    on = engine.workflows
    failed = await on.list(
        states="ERROR", versions=BROKEN, was_forked_from=False, with_outputs=True
    )
    errors = Counter(repr(on.payloads(row).error) for row in failed)
    for error, number in sorted(errors.items()):
        print(f"{number} orders of {BROKEN} failed with {error}")
    if failed:
        forks = await on.fork_many([row.workflow_id for row in failed], LastStep.FAILED)
        print(f"{len(forks)} orders go on from the step that failed")


async def outcome(engine: Engine) -> str:
    """How the repair went, as the rows tell it: a kept step ended before there was the fork."""
    on = engine.workflows
    forks = await on.list(names="ship", is_fork=True)
    await join([row.workflow_id for row in forks])
    steps = [(row, each) for row in forks for each in await on.steps(row.workflow_id)]
    kept = sum((each.completed_at_ms or 0) < row.created_at_ms for row, each in steps)
    shipped = await on.count(names="ship", states="SUCCESS")
    return (
        f"{shipped} orders are on their way, {len(forks)} of them repaired: {kept} steps were "
        f"kept, {len(steps) - kept} were done"
    )


async def main() -> None:
    async with deployed(BROKEN):
        await join(await ship.start_many(ORDERS.items(), ids=list(ORDERS)))
    async with deployed(FIXED) as engine:
        await repair(engine)
        print(await outcome(engine))


if __name__ == "__main__":
    asyncio.run(main())
