"""The public names are a decision: they exist, and change only with the snapshot."""

from __future__ import annotations

import perdure
from tools.public_names import differences, public_names


def test_the_names_are_those_of_the_snapshot() -> None:
    assert differences() == [], "run `python tools/public_names.py --update` if this is meant"


def test_the_names_are_unique_and_exist() -> None:
    names = public_names()
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(perdure, name)] == []
