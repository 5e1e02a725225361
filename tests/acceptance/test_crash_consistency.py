"""A kill at each boundary of a body: what is recorded stands, what was in flight runs again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import crash_program
from tests.acceptance.crash_program import BOUNDARIES, parts
from tests.support.engines import Lab
from tests.support.process import ChildProcess


@pytest.fixture(autouse=True)
def this_process_goes_past_every_boundary() -> Iterator[None]:
    crash_program.standing = False
    yield
    crash_program.standing = True


async def killed_everywhere(lab: Lab, effects: Path) -> None:
    """Run all workflows in one process and kill it when each stands at its boundary."""
    with ChildProcess("-m", "tests.acceptance.crash_program", lab.url, effects) as doomed:
        for _ in BOUNDARIES:
            await doomed.reaches("stands")
        doomed.kill()


async def test_a_kill_at_a_boundary_repeats_exactly_what_was_in_flight(
    shared_lab: Lab, tmp_path: Path
) -> None:
    lab, effects = shared_lab, tmp_path / "effects"
    await killed_everywhere(lab, effects)
    for boundary in BOUNDARIES:
        row = await lab.status(boundary)
        assert (row["status"], row["recovery_attempts"]) == ("PENDING", 1)

    engine = await lab.start(parts)
    for boundary in BOUNDARIES:
        assert await engine.handle(boundary, parts) == [10, 20, 30]
        assert (await lab.status(boundary))["recovery_attempts"] == 2
        assert await lab.history(boundary) == [(number, "part") for number in (1, 2, 3)]

    expected = Counter(
        {f"{boundary}: body": 2 for boundary in BOUNDARIES}
        | {
            f"{boundary}: step {number}": 2 if boundary == f"in {number}" else 1
            for boundary in BOUNDARIES
            for number in (1, 2, 3)
        }
    )
    assert Counter(effects.read_text().splitlines()) == expected
