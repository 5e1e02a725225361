"""Workflows whose code changes while they are under way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    InvalidArgument,
    UnexpectedStep,
    WorkflowState,
    deprecate_patch,
    gather,
    join,
    patch,
    run_step,
    select,
    sleep,
    workflow,
)
from perdure.api.workflow import Workflow
from perdure.errors import UnscopedTask, WrongPlace
from tests.support.branches import hold, say
from tests.support.engines import Lab, names

MARKER = "DBOS.patch-tax"


@workflow(name="order")
async def old() -> list[str]:
    return [await say("a"), await say("old"), await say("z")]


@workflow(name="order")
async def patched() -> list[str]:
    begun = await say("a")
    taxed = await say("new") if await patch("tax") else await say("old")
    return [begun, taxed, await say("z")]


@workflow(name="order")
async def deprecated() -> list[str]:
    begun = await say("a")
    await deprecate_patch("tax")
    return [begun, await say("new"), await say("z")]


@workflow(name="order")
async def new() -> list[str]:
    return [await say("a"), await say("new"), await say("z")]


async def gone_on(lab: Lab, code: Workflow[[], Any], recorded: int) -> Any:
    """The result of workflow `w` when that code goes on after so many recorded steps."""
    await lab.replace(code)
    await lab.cut("w", recorded + 1)
    await lab.rerun("w")
    return await lab.engine.handle("w")


async def test_a_new_run_has_the_new_code_and_records_that_first(lab: Lab) -> None:
    """The marker is a row with a name and nothing else."""
    await lab.start(patched)
    assert await patched.options(id="w")() == ["a", "new", "z"]
    assert names(await lab.history("w")) == ["say", MARKER, "say", "say"]
    marker = (await lab.steps("w"))[1]
    assert [marker[part] for part in ("output", "error", "child_workflow_id", "serialization")] == [
        None
    ] * 4


@pytest.mark.parametrize("recorded", [0, 1, 2, 3])
async def test_a_run_goes_the_way_it_had_begun(memory_lab: Lab, recorded: int) -> None:
    """The old way if it went on from there, else the new one: none of it was done the old way."""
    await memory_lab.start(old)
    await old.options(id="w")()
    begun_anew = recorded < 2
    assert await gone_on(memory_lab, patched, recorded) == [
        "a",
        "new" if begun_anew else "old",
        "z",
    ]
    assert (MARKER in names(await memory_lab.history("w"))) is begun_anew
    assert [row["function_id"] for row in await memory_lab.steps("w")] == list(
        range(1, 5 if begun_anew else 4)
    )


@pytest.mark.parametrize("recorded", range(5))
async def test_a_death_anywhere_changes_no_decision(memory_lab: Lab, recorded: int) -> None:
    """The same code after any number of its records: one result, the same ids, one marker."""
    await memory_lab.start(patched)
    await patched.options(id="w")()
    before = await memory_lab.history("w")
    assert await gone_on(memory_lab, patched, recorded) == ["a", "new", "z"]
    assert await memory_lab.history("w") == before


@pytest.mark.parametrize("recorded", range(5))
async def test_a_deprecated_patch_keeps_the_ids_of_runs_that_have_it(
    memory_lab: Lab, recorded: int
) -> None:
    """It takes an id where the marker stands, and never writes one."""
    await memory_lab.start(patched)
    await patched.options(id="w")()
    assert await gone_on(memory_lab, deprecated, recorded) == ["a", "new", "z"]
    has_marker = recorded >= 2
    assert (MARKER in names(await memory_lab.history("w"))) is has_marker
    assert len(await memory_lab.history("w")) == (4 if has_marker else 3)


async def test_code_without_the_patch_goes_on_with_runs_that_never_had_it(lab: Lab) -> None:
    await lab.start(deprecated)
    assert await deprecated.options(id="w")() == ["a", "new", "z"]
    assert await gone_on(lab, new, 2) == ["a", "new", "z"]


async def test_a_marker_that_the_code_does_not_know_is_named(memory_lab: Lab) -> None:
    """It was removed too early: `deprecate_patch` belongs there."""
    await memory_lab.start(patched)
    await patched.options(id="w")()
    await memory_lab.replace(new)
    await memory_lab.hand_back("w")
    with pytest.raises(UnexpectedStep, match=MARKER):
        await memory_lab.engine.handle("w")
    await memory_lab.until("w", WorkflowState.DELAYED)


async def test_several_patches_each_decide_for_themselves(memory_lab: Lab) -> None:
    """The second was added when a run had the first already."""

    @workflow(name="two")
    async def one_patch() -> list[bool]:
        first = await patch("one")
        await say("x")
        await say("y")
        return [first]

    @workflow(name="two")
    async def two_patches() -> list[bool]:
        first = await patch("one")
        await say("x")
        second = await patch("two")
        await say("y")
        return [first, second]

    await memory_lab.start(one_patch)
    await one_patch.options(id="w")()
    assert await gone_on(memory_lab, two_patches, 3) == [True, False]
    assert await gone_on(memory_lab, two_patches, 2) == [True, True]


async def test_what_was_recorded_out_of_order_counts_as_gone_on(memory_lab: Lab) -> None:
    """Of calls under way together the first had not ended when the process died."""

    @workflow(name="together")
    async def before() -> Any:
        return await gather(say("a"), say("b"))

    @workflow(name="together")
    async def after() -> Any:
        extra = [await say("extra")] if await patch("extra") else []
        return [*extra, *await gather(say("a"), say("b"))]

    await memory_lab.start(before)
    await before.options(id="w")()
    await memory_lab.replace(after)
    await memory_lab.forget("w", [1])
    await memory_lab.rerun("w")
    assert await memory_lab.engine.handle("w") == ["a", "b"]
    assert await gone_on(memory_lab, after, 0) == ["extra", "a", "b"]


async def test_branches_of_a_scope_decide_by_their_own_ids(memory_lab: Lab) -> None:
    """One branch had gone on when the process died, the other had not begun."""

    async def branch(word: str, *, is_patched: bool) -> list[str]:
        said = [await say("new")] if is_patched and await patch("branch") else []
        return [*said, await say(word)]

    @workflow(name="branches")
    async def branches() -> Any:
        both = await gather(branch("a", is_patched=now), branch("b", is_patched=now))
        return [*both, await say("end")]

    now = False
    await memory_lab.start(branches)
    await branches.options(id="w")()
    now = True
    # 1 and 2 are the scope's, 3 and 4 the branches'.
    assert [step_id for step_id, _ in await memory_lab.history("w")] == [1, 3, 4, 5]
    await memory_lab.forget("w", [4, 5])
    await memory_lab.rerun("w")
    assert await memory_lab.engine.handle("w") == [["a"], ["new", "b"], "end"]
    again = await memory_lab.history("w")
    await memory_lab.rerun("w")
    assert await memory_lab.engine.handle("w") == [["a"], ["new", "b"], "end"]
    assert await memory_lab.history("w") == again


async def test_a_branch_that_had_decided_keeps_the_old_code(memory_lab: Lab) -> None:
    """Its scope went on with what it returned, whatever would follow in it now."""

    async def wins() -> list[str]:
        said = [await say("won")]
        if is_changed and await patch("more"):
            said.append(await say("more"))
        return said

    @workflow(name="races")
    async def races() -> Any:
        return (await select(wins(), hold())).value

    is_changed = False
    await memory_lab.start(races)
    assert await races.options(id="w")() == ["won"]
    is_changed = True
    await memory_lab.rerun("w")
    assert await memory_lab.engine.handle("w") == ["won"]
    assert await races() == ["won", "more"]


async def test_a_patch_first_of_all_and_last_of_all(memory_lab: Lab) -> None:
    @workflow(name="edges")
    async def edges() -> list[bool]:
        first = await patch("first")
        await sleep(0)
        return [first, await patch("last")]

    await memory_lab.start(edges)
    assert await edges.options(id="w")() == [True, True]
    await memory_lab.rerun("w")
    assert await memory_lab.engine.handle("w") == [True, True]
    await join(["w"])


async def test_where_there_is_no_history_the_code_is_new(memory_lab: Lab) -> None:
    """So that a plain function can be tested; inside a step nothing is decided."""
    assert await patched.fn() == ["a", "new", "z"]
    assert await patch("tax")
    assert not await deprecate_patch("tax")

    @workflow
    async def steps() -> None:
        for call in (patch, deprecate_patch):
            with pytest.raises(WrongPlace, match="inside a step"):
                await run_step("asks", lambda call=call: call("tax"))  # type: ignore[misc]

    await memory_lab.start(steps)
    await steps()


@pytest.mark.parametrize("name", ["", " ", "a\x00", "x" * 513, 3])
async def test_a_name_must_be_one(name: Any) -> None:
    for call in (patch, deprecate_patch):
        with pytest.raises(InvalidArgument, match="name"):
            call(name)


async def test_tasks_that_no_scope_started_are_refused(memory_lab: Lab) -> None:
    """Their order would be that of scheduling; nothing polls for ever."""

    @workflow
    async def tasks() -> int:
        async def one(index: int) -> bool:
            return await patch(f"p{index}")

        found = await asyncio.gather(*(one(i) for i in range(3)), return_exceptions=True)
        return sum(isinstance(each, UnscopedTask) for each in found)

    await memory_lab.start(tasks)
    assert await tasks() == 3
