"""Whatever scopes a body opens, no id is handed out twice and scheduling decides none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.logic.numbering import Numbering

Plan = list["int | list[Plan]"]
"""What a branch does: take that many ids, or open a scope of branches."""

PLANS: st.SearchStrategy[Plan] = st.recursive(
    st.lists(st.integers(0, 4), max_size=3),
    lambda inner: st.lists(
        st.one_of(st.integers(0, 4), st.lists(inner, min_size=1, max_size=3)), max_size=4
    ),
    max_leaves=12,
)


def execute(plan: Plan, numbering: Numbering, *, backwards: bool) -> list[tuple[int, ...]]:
    """The ids each branch took, branches in source order; they run in either order."""
    own: list[int] = []
    inner: list[tuple[int, ...]] = []
    for part in plan:
        if isinstance(part, int):
            own += [numbering.take() for _ in range(part)]
            continue
        branches = numbering.split(len(part))
        order = list(range(len(part)))
        done: dict[int, list[tuple[int, ...]]] = {}
        for index in reversed(order) if backwards else order:
            done[index] = execute(part[index], branches[index], backwards=backwards)
        taken = [ids for index in order for ids in done[index]]
        inner += taken
        numbering.resume_above(max((step for ids in taken for step in ids), default=0))
    return [tuple(own), *inner]


@given(PLANS)
def test_every_id_is_taken_once_and_within_a_branch_they_rise(plan: Plan) -> None:
    branches = execute(plan, Numbering(), backwards=False)
    taken = [step for ids in branches for step in ids]
    assert len(taken) == len(set(taken))
    assert all(step >= 1 for step in taken)
    assert all(list(ids) == sorted(ids) for ids in branches)


@given(PLANS)
def test_the_order_in_which_branches_run_changes_no_id(plan: Plan) -> None:
    forwards = execute(plan, Numbering(), backwards=False)
    assert execute(plan, Numbering(), backwards=True) == forwards


@given(st.integers(1, 1000), st.integers(1, 50), st.integers(0, 5000))
def test_going_on_above_an_id_is_the_next_of_the_own_series(
    first: int, stride: int, highest: int
) -> None:
    numbering = Numbering(first, stride)
    numbering.resume_above(highest)
    resumed = numbering.take()
    assert (resumed - first) % stride == 0
    assert resumed >= first
    assert resumed > highest
    assert resumed - stride <= max(highest, first - 1)


@given(
    st.integers(1, 100),
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(0, 5),
)
def test_a_scope_that_a_branch_decided_goes_on_at_the_same_id_at_a_replay(
    stride: int, counts: list[int], decider: int, later: int
) -> None:
    """Where the losers stood is in the verdict: a replay that drives one branch alone needs it."""
    decider %= len(counts)
    first, again = Numbering(3, stride), Numbering(3, stride)
    branches = first.split(len(counts))
    taken = [
        [branch.take() for _ in range(count)]
        for branch, count in zip(branches, counts, strict=True)
    ]
    for branch in branches:
        first.resume_above(branch.highest)
    next_id = first.upcoming
    alone = again.split(len(counts))[decider]
    assert [alone.take() for _ in range(counts[decider])] == taken[decider]
    again.go_on_at(next_id)
    rest = [first.take() for _ in range(later)]
    assert [again.take() for _ in range(later)] == rest
    assert not set(rest) & {step for ids in taken for step in ids}
