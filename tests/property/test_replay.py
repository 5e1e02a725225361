"""Whatever a body does and wherever its history is cut, a replay gives the same."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import Engine, current, gather, run_step, sleep, step, workflow
from tests.support.backdoor import MemoryBackdoor
from tests.support.engines import Lab
from tests.support.watched import WatchedStore

Plan = list[tuple[str, int]]

OPERATIONS = st.tuples(
    st.sampled_from(["step", "thread", "failing", "sleep", "child", "start", "gather", "dropped"]),
    st.integers(0, 3),
)
PLANS = st.lists(OPERATIONS, min_size=1, max_size=8)


@dataclass
class Program:
    """A workflow that carries out a plan, and what ran of it."""

    plan: Plan
    ran: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        @step(name="effect", max_attempts=2, interval=0)
        async def effect(value: int) -> int:
            self.ran.append(current().step_id)
            return value

        @step(name="fails")
        async def fails(value: int) -> None:
            self.ran.append(current().step_id)
            raise ValueError(value)

        @workflow(name="inner")
        async def inner(value: int) -> int:
            return value * 2

        @workflow(name="program")
        async def program() -> list[Any]:
            return [await self.operation(*each) for each in self.plan]

        self.effect, self.fails, self.inner, self.program = effect, fails, inner, program

    def threaded(self, value: int) -> int:
        self.ran.append(current().step_id)
        return value + 1

    async def operation(self, kind: str, value: int) -> Any:
        if kind == "failing":
            try:
                await self.fails(value)
            except ValueError as error:
                return str(error)
        if kind == "dropped":
            return self.effect(value) is not None
        if kind == "sleep":
            return await sleep(value / 10_000)
        if kind == "gather":
            return await gather(*(self.effect(each) for each in range(value)))
        if kind == "start":
            return await (await self.inner.start(value))
        calls: dict[str, Any] = {"step": self.effect, "child": self.inner}
        call = calls.get(kind)
        return await (run_step("threaded", self.threaded, value) if call is None else call(value))


async def check(plan: Plan, cut: int) -> None:
    program = Program(plan)
    engine = Engine("memory:", workflows=[program.program, program.inner], heartbeat=0.02, grace=0)
    lab = Lab("memory:")
    async with engine:
        lab.engines.append(engine)
        lab.stores.append(WatchedStore(engine.kernel.store))
        assert isinstance(lab.backdoor, MemoryBackdoor)
        first = await program.program.options(id="w")()
        history = await lab.links("w")
        effects = list(program.ran)
        program.ran.clear()
        await lab.cut("w", cut)
        row = await lab.rerun("w")
        assert row["status"] == "SUCCESS"
        assert await engine.handle("w") == first
        assert await lab.links("w") == history
        assert sorted(program.ran) == sorted(each for each in effects if each and each >= cut)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(PLANS, st.integers(1, 20))
def test_a_replay_of_any_program_cut_anywhere_gives_the_same(plan: Plan, cut: int) -> None:
    asyncio.run(check(plan, cut))
