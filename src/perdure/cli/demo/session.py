"""One start of the program: finds the run to go on with, or begins one, and follows it."""

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from perdure import WorkflowRow, WorkflowState
from perdure.api.client import Client
from perdure.cli.demo.census import Census, take_census
from perdure.cli.demo.crew import Crew
from perdure.cli.demo.display import Display, NoteHandler
from perdure.cli.demo.places import Places
from perdure.cli.demo.service import (
    APPLICATION,
    Post,
    archive_engine,
    archive_queue,
    posts,
)
from perdure.cli.demo.summary import Summary
from perdure.cli.demo.tally import TALLY, Tally
from perdure.cli.demo.workflows import archive_file, archive_folder
from perdure.cli.payloads import payload
from perdure.errors import ConfigurationError, SchemaMissing, WorkflowError
from perdure.logic.phrases import plural
from perdure.model.status import ACTIVE

SILENCE_S = 4.0
"""Longer than the runs of a dead process take to come back: then a living one has them."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The latest run of these places, and who had settled its files by now."""

    row: WorkflowRow
    census: Census


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run.

    `recorded` files were settled before this start, which took `seconds` and whose processes are
    `posts`. None of them if the run was complete.
    """

    row: WorkflowRow
    summary: Summary
    census: Census
    recorded: int
    seconds: float = 0.0
    posts: Sequence[Post] = ()

    @property
    def was_complete(self) -> bool:
        """Whether there was nothing to do."""
        return not self.posts

    @property
    def rate(self) -> float:
        """Files settled a second, since this start began."""
        return (self.census.total - self.recorded) / self.seconds if self.seconds else 0.0


async def archive(where: Places, display: Display, *, processes: int, again: bool) -> Result:
    """Go on with the run of these places, begin one, or find that it is complete."""
    began_s = time.monotonic()
    earlier = await _earlier_run(where)
    if earlier is not None and earlier.row.state not in ACTIVE and not again:
        summary = _summary_of(earlier.row)
        return Result(earlier.row, summary, earlier.census, earlier.census.total)
    number, recorded = _choose(where, earlier, again=again)
    assigned = posts(where.database, where.queue, processes)
    with NoteHandler(display), _sigterm_like_sigint():
        row, census = await _run(where, where.run_id(number), assigned, recorded, display)
    seconds = time.monotonic() - began_s
    return Result(row, _summary_of(row), census, recorded, seconds, assigned)


async def _run(
    where: Places, run_id: str, assigned: Sequence[Post], recorded: int, display: Display
) -> tuple[WorkflowRow, Census]:
    """Work on a run until it has ended, in this process and its workers."""
    tally = Tally()
    TALLY.set(tally)
    first, *others = assigned
    queue = archive_queue(where.queue, len(assigned))
    engine = archive_engine(first, [archive_folder, archive_file], [queue])
    async with Crew(tally, display) as crew, engine:
        try:
            await crew.start(others)
            call = archive_folder.options(id=run_id, queue=queue, engine=engine)
            handle = await call.start(where.folder, where.out, where.leave_out)
            await _follow(handle.result(), tally, recorded, display)
            row = await engine.workflows.get(run_id, with_payloads=True)
            return row, await take_census(engine.workflows, run_id)
        finally:
            # They stop while this process does.
            crew.let_go()


async def _earlier_run(where: Places) -> Earlier | None:
    """Asked before the engine starts: what it finds was recorded by earlier starts alone."""
    try:
        async with Client(where.database, name=APPLICATION) as client:
            rows = await client.workflows.list(
                names=[archive_folder.name],
                id_prefixes=where.id_prefix,
                newest_first=True,
                limit=1,
                with_inputs=True,
                with_outputs=True,
            )
            if not rows:
                return None
            return Earlier(rows[0], await take_census(client.workflows, rows[0].workflow_id))
    except SchemaMissing:
        return None


def _choose(where: Places, earlier: Earlier | None, *, again: bool) -> tuple[int, int]:
    """The number of the run to work on, and how many of its files are settled."""
    if earlier is None:
        return 1, 0
    number = where.run_number(earlier.row.workflow_id)
    if not again:
        return number, earlier.census.total
    if earlier.row.state in ACTIVE:
        raise ConfigurationError(
            f"the run {earlier.row.workflow_id} is not finished; go on with it without --again"
        )
    return number + 1, 0


def _summary_of(row: WorkflowRow) -> Summary:
    if row.state is not WorkflowState.SUCCESS:
        reason = payload(row.error, row.serialization).as_error() if row.error else "no result"
        raise WorkflowError(
            row.workflow_id,
            f"the run {row.workflow_id} ended as {row.state.value} ({reason}); start a new one "
            "with --again",
        )
    found = payload(row.output, row.serialization)
    return msgspec.convert(found.value, Summary)


async def _follow(call: Awaitable[Summary], tally: Tally, recorded: int, display: Display) -> None:
    """Show progress until the run has ended, well or not."""
    announcer = _Announcer(tally, recorded, display)
    ended = asyncio.ensure_future(_ended(call))
    try:
        while not ended.done():
            await asyncio.wait([ended], timeout=display.interval_s)
            announcer.look()
            if not ended.done():
                display.show(tally.settled(recorded), tally)
    finally:
        ended.cancel()
    await ended


async def _ended(call: Awaitable[Summary]) -> None:
    await call


class _Announcer:
    """Says once what there is to do, and once that it is waited for if another process does it."""

    def __init__(self, tally: Tally, recorded: int, display: Display) -> None:
        self._tally = tally
        self._recorded = recorded
        self._display = display
        self._told_plan = False
        self._told_wait = False

    def look(self) -> None:
        """Say what can be said by now."""
        total = self._tally.total
        if total is None:
            if self._tally.seconds > SILENCE_S and not self._told_wait:
                self._told_wait = True
                self._display.note("another process leads the work on this archive; this one helps")
        elif not self._told_plan:
            self._told_plan = True
            self._display.note(self._plan(total))

    def _plan(self, total: int) -> str:
        if self._told_wait:
            return f"its work goes on here: {plural(total, 'file')} in all"
        if not self._recorded:
            return f"archiving {plural(total, 'file')}"
        were = "was" if self._recorded == 1 else "were"
        return (
            f"{plural(self._recorded, 'file')} {were} already recorded, "
            f"archiving the remaining {max(total - self._recorded, 0):,}"
        )


@contextmanager
def _sigterm_like_sigint() -> Iterator[None]:
    """Let SIGTERM stop in order, as Ctrl-C does: asyncio's own handler does the rest."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
