"""The demonstration's promise: killed at any time and started again, each file is archived once.

What ran again is seen on the archives themselves: a `compress` step that is repeated writes its
archive anew, which changes the file's inode.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from perdure import WorkflowRow
from perdure.api.client import Client
from perdure.cli.demo.packing import archive_path
from perdure.cli.demo.service import APPLICATION
from perdure.errors import SchemaMissing
from tests.edges import archives
from tests.support.backdoor import Backdoor, Row, backdoor_to
from tests.support.process import ChildProcess
from tests.support.waiting import eventually

SMALL_FILES = 400
FILES = SMALL_FILES + 1
KILLED_AT = (0, 40, 220, SMALL_FILES)
"""Each start is killed once it has taken the run over and at least so many files are settled; the
last one while the endless file is left."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Recorded:
    """What a database holds of a run: its row, its children by file name, their steps."""

    run: WorkflowRow
    children: dict[str, WorkflowRow]
    steps: dict[str, list[Row]]

    @property
    def settled(self) -> int:
        return sum(child.state.is_terminal for child in self.children.values())

    def packed(self) -> list[str]:
        """The files whose `compress` step is recorded."""
        return [name for name, steps in self.steps.items() if steps]


async def look(url: str) -> Recorded:
    async with Client(url, name=APPLICATION) as client:
        (run,) = await client.workflows.list(names=["demo.archive_folder"])
        rows = await client.workflows.list(
            names=["demo.archive_file"], limit=10 * FILES, with_inputs=True, with_outputs=True
        )
        children = {file_of(row): row for row in rows}
        assert len(children) == len(rows), "no file has two workflows"
    async with backdoor_to(url) as behind:
        found = await behind.rows("SELECT * FROM operation_outputs ORDER BY function_id")
    by_workflow: dict[str, list[Row]] = {}
    for row in found:
        by_workflow.setdefault(row["workflow_uuid"], []).append(row)
    steps = {name: by_workflow.get(row.workflow_id, []) for name, row in children.items()}
    return Recorded(run, children, steps)


def file_of(row: WorkflowRow) -> str:
    assert row.inputs is not None
    name: str = json.loads(row.inputs)["positionalArgs"][2]
    return name


async def has_schema(url: str) -> bool:
    try:
        async with Client(url, name=APPLICATION):
            return True
    except SchemaMissing:
        return False


async def progress(behind: Backdoor) -> tuple[int, int]:
    """How often the run was begun, and how many files are settled by now."""
    (found,) = await behind.rows(
        "SELECT max(CASE WHEN name = 'demo.archive_folder' THEN recovery_attempts END) AS begun,"
        " count(CASE WHEN name = 'demo.archive_file' AND status = 'SUCCESS' THEN 1 END) AS settled"
        " FROM workflow_status"
    )
    return found["begun"] or 0, found["settled"]


async def has_come(behind: Backdoor, begun: int, settled: int) -> bool:
    seen = await progress(behind)
    return seen[0] >= begun and seen[1] >= settled


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = archives.tree(tmp_path / "folder", SMALL_FILES)
    archives.add_endless(folder)
    return folder


@pytest.mark.parametrize("processes", [1, 3])
async def test_a_killed_run_goes_on_and_archives_each_file_once(
    folder: Path, tmp_path: Path, shared_database_url: str, processes: int
) -> None:
    """The kill takes all processes of a start at once."""
    out, url = tmp_path / "out", shared_database_url
    command = (
        *("-m", "perdure.cli", "demo", folder, "--out", out, "--database", url),
        *("--workers", str(processes)),
    )
    settled = 0
    before: dict[str, tuple[int, int]] = {}
    steps: dict[str, list[Row]] = {}

    for start, threshold in enumerate(KILLED_AT, start=1):
        with ChildProcess(*command) as child:
            await eventually(partial(has_schema, url))
            async with backdoor_to(url) as behind:
                await eventually(partial(has_come, behind, start, threshold))
            assert child.running, child.errors
            child.kill()
        seen = await look(url)
        settled = seen.settled
        assert threshold <= settled < FILES
        assert not (out / "summary.json").exists()
        for name, found in steps.items():
            assert seen.steps[name][: len(found)] == found, "a record never changes"
        steps = seen.steps
        for name in seen.packed():
            archive = archives.identity(archive_path(out, name))
            assert before.setdefault(name, archive) == archive, "a recorded step never runs again"

    archives.end_endless(folder)
    with ChildProcess(*command) as child:
        printed = child.succeed(deadline_s=120)
    assert f"{'skipped':<16} {settled:,} files recorded by earlier starts" in printed
    await check_the_end(url, folder, out, before)
    check_nothing_is_done_again(command, out)


async def check_the_end(
    url: str, folder: Path, out: Path, before: dict[str, tuple[int, int]]
) -> None:
    source = archives.contents(folder)
    assert len(source) == FILES
    assert archives.archived(out) == source
    assert archives.recorded(out) == source
    assert archives.summary(out)["failed"] == []
    assert not (out / ".unfinished").exists()

    end = await look(url)
    assert end.run.state == "SUCCESS"
    assert end.run.attempts == len(KILLED_AT) + 1
    assert set(end.children) == set(source)
    assert {child.state for child in end.children.values()} == {"SUCCESS"}
    assert all(child.parent_workflow_id == end.run.workflow_id for child in end.children.values())
    for steps in end.steps.values():
        recorded = [(step["function_id"], step["function_name"]) for step in steps]
        assert recorded == [(1, "compress"), (2, "verify")]
    for name, archive in before.items():
        assert archives.identity(archive_path(out, name)) == archive
    async with Client(url, name=APPLICATION) as client:
        steps = await client.workflows.steps(end.run.workflow_id)
    assert [step.step_id for step in steps] == list(range(1, 2 * FILES + 3))
    assert len({step.child_workflow_id for step in steps} - {None}) == FILES


def check_nothing_is_done_again(command: tuple[str | Path, ...], out: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {name: archives.identity(out / name) for name in archives.names(out)}

    before = state()
    with ChildProcess(*command) as child:
        printed = child.succeed()
    assert printed[0].startswith("This archive is complete; nothing was changed.")
    assert state() == before
