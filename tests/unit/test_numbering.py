"""Step ids: from one, in the order they are taken, branch-aware."""

from __future__ import annotations

import pytest

from perdure.errors import InvalidArgument
from perdure.logic.numbering import LARGEST_STEP_ID, Numbering


def take(numbering: Numbering, count: int) -> list[int]:
    return [numbering.take() for _ in range(count)]


def test_a_body_counts_from_one() -> None:
    assert take(Numbering(), 4) == [1, 2, 3, 4]


def test_the_upcoming_id_is_the_next_one_and_looking_takes_nothing() -> None:
    numbering = Numbering()
    assert (numbering.upcoming, numbering.upcoming, numbering.take()) == (1, 1, 1)


def test_branches_take_every_kth_id_from_where_they_begin() -> None:
    parent = Numbering()
    take(parent, 2)
    branches = parent.split(3)
    assert [take(branch, 3) for branch in branches] == [[3, 6, 9], [4, 7, 10], [5, 8, 11]]


def test_strides_multiply_in_nested_scopes() -> None:
    (first, second) = Numbering().split(2)
    inner = first.split(2)
    assert [take(branch, 3) for branch in inner] == [[1, 5, 9], [3, 7, 11]]
    assert take(second, 2) == [2, 4]


def test_the_parent_goes_on_above_the_highest_taken_in_its_own_series() -> None:
    parent = Numbering()
    first, second = parent.split(2)
    taken = take(first, 4) + take(second, 1)
    parent.resume_above(max(taken))
    assert (max(taken), parent.take()) == (7, 8)


def test_a_nested_parent_stays_in_its_series() -> None:
    _, outer = Numbering().split(2)
    first, _ = outer.split(2)
    take(first, 2)
    outer.resume_above(6)
    assert take(outer, 2) == [8, 10]


@pytest.mark.parametrize("highest", [0, 4])
def test_nothing_taken_moves_nothing(highest: int) -> None:
    parent = Numbering()
    take(parent, 4)
    parent.resume_above(highest)
    assert parent.take() == 5


def test_the_last_id_that_fits_the_column_is_taken_and_the_next_refused() -> None:
    numbering = Numbering(LARGEST_STEP_ID)
    assert numbering.take() == 2_147_483_647
    with pytest.raises(InvalidArgument, match="child workflows"):
        numbering.take()
