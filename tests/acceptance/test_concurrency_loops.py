"""Neither the loop, nor how it begins tasks, nor the seed of hashes changes an id."""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

import pytest

from tests.support.backdoor import SQLITE_PREFIX, SqliteBackdoor, connect_file
from tests.support.behind import BehindBacks
from tests.support.database import SqliteDatabase
from tests.support.process import ChildProcess

LOOPS = [
    "default",
    pytest.param(
        "eager",
        marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks"),
    ),
    pytest.param(
        "uvloop",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed"
        ),
    ),
]


class Behind(BehindBacks):
    """A way in behind the back of the processes."""

    def __init__(self, url: str) -> None:
        path = url.removeprefix(SQLITE_PREFIX)
        self._backdoor = SqliteBackdoor(lambda: connect_file(path))

    @property
    def backdoor(self) -> SqliteBackdoor:
        """Plain SQL on the database."""
        return self._backdoor


def run(url: str, loop: str, seed: int) -> list[Any]:
    """What the program prints: its result, what is recorded, how many effects it had."""
    environment = {"PYTHONHASHSEED": str(seed)}
    with ChildProcess("-m", "tests.acceptance.scope_program", url, loop, env=environment) as child:
        (line,) = child.succeed()
    return list(json.loads(line))


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_history_replays_on_any_loop_under_any_seed(
    sqlite_database: SqliteDatabase, loop: str
) -> None:
    first = run(sqlite_database.url, "default", 1)
    behind = Behind(sqlite_database.url)
    await behind.hand_back("w")
    again = run(sqlite_database.url, loop, 2)
    assert again[:2] == first[:2]
    assert (first[2] > 0, again[2]) == (True, 0)
    # What the rest of the program does after a crash in the middle takes the same ids.
    step_ids = [step_id for step_id, *_ in first[1]]
    await behind.cut("w", step_ids[len(step_ids) // 2])
    await behind.hand_back("w")
    rest = run(sqlite_database.url, loop, 3)
    assert rest[0] == first[0]
    await behind.backdoor.close()
