"""Who waits for the end of a workflow in another process, and who is told of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from perdure.engine import tidings as tidings_module
from perdure.engine.hints import HintKind, Hints
from perdure.engine.services import Tasks
from perdure.engine.system import SystemIds
from perdure.engine.tidings import Tidings
from perdure.model.ids import WorkflowId
from perdure.ports.capabilities import Capabilities
from perdure.store.postgres.hints import LONGEST_BYTES

A, B, C, LOCAL = map(WorkflowId, ("a", "b", "c", "local"))


class Post:
    """A store that keeps what is announced."""

    capabilities = Capabilities(listen=True, parallel_writes=True, max_batch=10)

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def announce(self, hints: list[str]) -> None:
        self.sent += hints


class Side(NamedTuple):
    """One process, and another that reads what it announces."""

    tidings: Tidings
    hints: Hints
    reader: Hints
    post: Post

    async def said(self) -> list[tuple[HintKind, tuple[WorkflowId, ...]]]:
        """What it announced since."""
        await self.hints.turn()
        found = [self.reader.read(text) for text in self.post.sent]
        self.post.sent.clear()
        return [(hint.kind, hint.workflows) for hint in found if hint is not None]


@pytest.fixture
def side() -> Side:
    post = Post()
    store: Any = post
    hints = Hints(Tasks(), store, SystemIds())
    reader = Hints(Tasks(), store, SystemIds())
    return Side(Tidings(hints, lambda each: each == LOCAL), hints, reader, post)


async def test_a_wait_for_what_runs_elsewhere_is_said_once(side: Side) -> None:
    for each in (A, LOCAL, B, A):
        side.tidings.want(each)
    assert await side.said() == [(HintKind.AWAITED, (A, B))]
    side.tidings.want(A)
    assert await side.said() == []


async def test_it_is_said_again_to_who_begins_to_listen(side: Side) -> None:
    side.tidings.want(A)
    await side.said()
    side.tidings.repeat([LOCAL, A, B])
    assert await side.said() == [(HintKind.AWAITED, (A, B))]


@pytest.mark.parametrize("how", ["ended", "told"])
async def test_after_an_end_a_wait_for_the_next_is_said(side: Side, how: str) -> None:
    """A workflow that was resumed ends a second time."""
    side.tidings.want(A)
    if how == "ended":
        side.tidings.ended(A)
    else:
        side.tidings.told([A])
    await side.said()
    side.tidings.want(A)
    assert await side.said() == [(HintKind.AWAITED, (A,))]


async def test_only_an_end_that_somebody_waits_for_is_told_and_once(side: Side) -> None:
    side.tidings.wanted([A])
    assert (side.tidings.is_wanted(A), side.tidings.is_wanted(B)) == (True, False)
    for each in (A, B, A):
        side.tidings.ended(each)
    assert await side.said() == [(HintKind.ENDED, (A,))]


async def test_an_end_that_another_told_is_not_told_again(side: Side) -> None:
    side.tidings.wanted([A, B])
    side.tidings.told([A])
    side.tidings.ended(A)
    assert await side.said() == []
    assert side.tidings.is_wanted(B)


async def test_an_end_just_before_its_wait_was_heard_is_told(side: Side) -> None:
    """Not what was taken since: it may go on, and end a second time."""
    for each in (A, B, C):
        side.tidings.ended(each)
    side.tidings.taken([B])
    side.tidings.wanted([A, B])
    assert await side.said() == [(HintKind.ENDED, (A,))]
    assert (side.tidings.is_wanted(A), side.tidings.is_wanted(B)) == (False, True)
    side.tidings.taken([])
    side.tidings.wanted([C])
    assert await side.said() == []
    assert side.tidings.is_wanted(C)


async def test_only_the_latest_ends_are_remembered(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidings_module, "MOST_RECENT", 2)
    for each in (A, B, C):
        side.tidings.ended(each)
    side.tidings.wanted([A, B, C])
    assert await side.said() == [(HintKind.ENDED, (B, C))]


async def test_what_was_named_longest_ago_is_forgotten(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidings_module, "MOST_REMEMBERED", 2)
    ids = [WorkflowId(str(number)) for number in range(5)]
    side.tidings.wanted(ids)
    assert [each for each in ids if side.tidings.is_wanted(each)] == ids[-2:]
    side.tidings.wanted([ids[3], ids[0]])
    assert [each for each in ids if side.tidings.is_wanted(each)] == [ids[0], ids[3]]


async def test_many_workflows_are_named_in_few_hints_whatever_their_ids(side: Side) -> None:
    """Each short enough to be sent; one that is too long alone is the store's concern."""
    odd = ['"', "a,b", "[", "☃" * 100, "\n", "", "::", "x" * 8_000]
    ids = [WorkflowId(each) for each in [*odd, *(f"workflow-{number}" for number in range(2_000))]]
    for each in ids:
        side.tidings.want(each)
    await side.hints.turn()
    sizes = [len(text.encode()) for text in side.post.sent]
    assert len(sizes) < 10
    assert sum(size > LONGEST_BYTES for size in sizes) == 1
    named = [each for _, workflows in await side.said() for each in workflows]
    assert named == ids


@pytest.mark.parametrize("body", ["!", "!no list", '!{"a":1}', ".[1]"])
async def test_what_nobody_understands_names_nothing(side: Side, body: str) -> None:
    hint = side.reader.read(f"12345678{body}")
    assert hint is not None
    assert hint.workflows == ()
