"""Every deviation names a test that exists."""

from __future__ import annotations

import re

import pytest

from tests.meta.test_repository import PROJECT

PAGE = PROJECT / "docs" / "explanation" / "deviations.md"
ROWS = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: cells(row)[0])
def test_a_deviation_is_complete_and_its_test_exists(row: str) -> None:
    where, they, ours, why, test = cells(row)
    assert all((where, they, ours, why))
    named = re.fullmatch(r"`([\w/]+\.py)(?:::(\w+))?`", test)
    assert named is not None, f"{test} names no test"
    path, function = named.groups()
    source = (PROJECT / "tests" / path).read_text()
    assert function is None or f"def {function}(" in source


def test_no_place_is_named_twice() -> None:
    places = [cells(row)[0] for row in ROWS]
    assert len(places) == len(set(places))
