"""Random lives of runs under several owners: every store must agree with the simple model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from perdure.errors import LeaseLost
from perdure.model.answer import AnswerKind
from perdure.model.ids import OwnerToken, WorkflowId
from perdure.model.lease import LeaseSeen
from perdure.model.queue import Rate
from perdure.model.status import WorkflowState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Checkpoint, Fence, Start
from tests.support import rows
from tests.support.database import Database, MovableClock
from tests.support.run_model import Limits, RunModel
from tests.support.store import Process, Site

T = TypeVar("T")

HOUR_MS = 3_600_000
ROOTS = tuple(rows.wid(f"w{number}") for number in range(16))
CHILDREN = tuple(rows.wid(f"child-{number}") for number in range(6))
IDS = ROOTS + CHILDREN
QUEUES = ("a", "b")
SHARED = ("narrow", "slow")
SERVED = (*QUEUES, INTERNAL_QUEUE)
ENDINGS = tuple(state for state in WorkflowState if state.is_terminal)
picks = st.integers(0, 1000)
processes = st.sampled_from([0, 1])
some_ids = st.lists(st.sampled_from(ROOTS), min_size=1, max_size=4, unique=True)
batches = st.lists(picks, min_size=1, max_size=4)


class StoreMachine(RuleBasedStateMachine):
    """Two process starts on one database, of which one can be taken for dead at any time."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = RunModel()
        self.fences: list[Fence] = []
        self.made: list[Start] = []
        self.recorded: list[Checkpoint] = []
        self.dying: tuple[Process, LeaseSeen] | None = None

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it to its end."""
        return self.runner.run(work)

    @initialize()
    def two_processes(self) -> None:
        """Open the database and two process starts."""
        self.do(self.database.clear())
        self.site = Site(self.database, MovableClock(), self.database.backdoor())
        self.first = self.do(self.site.process())
        self.processes = [self.first, self.do(self.site.process())]
        rate = Rate(3, HOUR_MS / 1000)
        self.do(self.first.queue("narrow", concurrency=2))
        self.do(self.first.queue("slow", rate=rate))
        self.model.limits = {"narrow": Limits(concurrency=2), "slow": Limits(rate=rate)}

    def teardown(self) -> None:
        """Close everything of this example."""
        try:
            if hasattr(self, "site"):
                self.do(self.site.close())
        finally:
            self.runner.close()

    def _fence(self, pick: int) -> Fence:
        live = [fence for fence in self.fences if self.model.held(*fence)]
        # Two of three are live, or nearly all that happens would be about lost runs.
        pool = live if live and pick % 3 else self.fences
        return pool[pick // 3 % len(pool)]

    def _start(self, process: Process, items: list[Start]) -> None:
        answers = self.do(process.start(*items))
        for item, answer in zip(items, answers, strict=True):
            kind, standing = self.model.start(item, process.executor)
            assert answer.kind is kind, item
            shown = answer.standing.workflow_id if answer.standing else None
            assert shown == standing, item
            if kind is AnswerKind.WRITTEN:
                self.made.append(item)
                self._born(item)

    def _born(self, item: Start) -> None:
        workflow_id = item.workflow.workflow_id
        row = self.do(self.site.read(workflow_id))
        self.model.runs[workflow_id].created_ms = row.created_at_ms
        if item.workflow.state is WorkflowState.PENDING:
            self.fences.append(rows.fence_of(item.workflow))
        elif item.workflow.delay_ms is not None:
            self._delayed(workflow_id)

    @rule(process=processes, chosen=some_ids, priority=st.integers(0, 2))
    def start_directly(self, process: int, chosen: list[WorkflowId], priority: int) -> None:
        """Direct starts under ids that may exist."""
        items = [Start(rows.direct(workflow_id, priority=priority)) for workflow_id in chosen]
        self._start(self.processes[process], items)

    @rule(
        process=processes,
        chosen=some_ids,
        queue=st.sampled_from(QUEUES + SHARED),
        dedup=st.sampled_from([None, None, "d"]),
        priority=st.integers(0, 2),
        delay=st.sampled_from([None, None, HOUR_MS]),
    )
    def enqueue(
        self,
        process: int,
        chosen: list[WorkflowId],
        queue: str,
        dedup: str | None,
        priority: int,
        delay: int | None,
    ) -> None:
        """A batch of enqueues; only one can hold the deduplication id."""
        items = [
            Start(
                rows.enqueued(
                    workflow_id,
                    queue_name=queue,
                    deduplication_id=dedup if index == 0 else None,
                    priority=priority,
                    delay_ms=delay,
                )
            )
            for index, workflow_id in enumerate(chosen)
        ]
        self._start(self.processes[process], items)

    @precondition(lambda self: self.fences)
    @rule(process=processes, parent=picks, step=st.integers(1, 4), child=st.sampled_from(CHILDREN))
    def start_child(self, process: int, parent: int, step: int, child: WorkflowId) -> None:
        """A child of a run that may be lost, at a step id that may be taken."""
        item = rows.child_of(self._fence(parent), step, rows.enqueued(child, queue_name="a"))
        self._start(self.processes[process], [item])

    @precondition(lambda self: self.made)
    @rule(process=processes, which=batches)
    def repeat_starts(self, process: int, which: list[int]) -> None:
        """Starts whose answer got lost, long ago perhaps."""
        chosen = {pick % len(self.made) for pick in which}
        self._start(self.processes[process], [self.made[index] for index in sorted(chosen)])

    @precondition(lambda self: self.fences)
    @rule(
        process=processes,
        items=st.lists(
            st.tuples(picks, st.integers(1, 4), st.sampled_from("xy")), min_size=1, max_size=4
        ),
    )
    def record(self, process: int, items: list[tuple[int, int, str]]) -> None:
        """Steps of owners old and new."""
        batch = [rows.checkpoint(self._fence(pick), step, name=name) for pick, step, name in items]
        # Which of two for one step id is first within a batch is not promised.
        batch = list({(item.workflow_id, item.step_id): item for item in batch}.values())
        self.recorded += batch
        self._record(self.processes[process], batch)

    @precondition(lambda self: self.recorded)
    @rule(process=processes, which=batches)
    def repeat_records(self, process: int, which: list[int]) -> None:
        """Steps whose answer got lost, long ago perhaps; also those that were refused."""
        chosen = [self.recorded[pick % len(self.recorded)] for pick in which]
        batch = list({(item.workflow_id, item.step_id): item for item in chosen}.values())
        self._record(self.processes[process], batch)

    def _record(self, process: Process, batch: list[Checkpoint]) -> None:
        answers = self.do(process.store.record(batch))
        assert [answer.kind for answer in answers] == [self.model.record(item) for item in batch]

    @precondition(lambda self: self.fences)
    @rule(process=processes, which=batches, state=st.sampled_from(ENDINGS))
    def finish(self, process: int, which: list[int], state: WorkflowState) -> None:
        """Endings by owners old and new."""
        fences = {self._fence(pick).workflow_id: self._fence(pick) for pick in which}
        batch = [rows.finish(fence, state, f'"{fence.owner}"') for fence in fences.values()]
        answers = self.do(self.processes[process].store.finish(batch))
        assert [answer.kind for answer in answers] == [self.model.finish(item) for item in batch]
        for item, answer in zip(batch, answers, strict=True):
            if answer.kind is AnswerKind.MINE:
                run = self.model.runs[item.workflow_id]
                assert answer.standing is not None
                assert answer.standing.state is run.state
                assert (answer.standing.output, answer.standing.error) == (run.output, run.error)

    @precondition(lambda self: self.fences)
    @rule(
        process=processes,
        which=batches,
        delay=st.sampled_from([None, 0, HOUR_MS]),
        give_back=st.booleans(),
    )
    def release(self, process: int, which: list[int], delay: int | None, give_back: bool) -> None:
        """Giving back by owners old and new."""
        fences = {self._fence(pick).workflow_id: self._fence(pick) for pick in which}
        batch = [rows.release(fence, delay, give_back=give_back) for fence in fences.values()]
        answers = self.do(self.processes[process].store.release(batch))
        expected = [self.model.release(item) for item in batch]
        assert [answer.kind for answer in answers] == expected
        if delay is not None:
            for workflow_id, answer in zip(fences, answers, strict=True):
                if answer.kind is AnswerKind.WRITTEN:
                    self._delayed(workflow_id)

    def _delayed(self, workflow_id: WorkflowId) -> None:
        row = self.do(self.site.read(workflow_id))
        assert row.delay_until_ms is not None
        self.model.runs[workflow_id].due_ms = row.delay_until_ms

    @rule(process=processes, ids=some_ids)
    def cancel(self, process: int, ids: list[WorkflowId]) -> None:
        """A cancel by an operator."""
        changed = self.do(self.processes[process].cancel(ids))
        assert set(changed) == self.model.cancel(ids)

    @rule(
        process=processes,
        queues=st.sampled_from([SERVED, QUEUES, ("a",), (INTERNAL_QUEUE,)]),
        limit=st.integers(1, 4),
    )
    def claim(self, process: int, queues: tuple[str, ...], limit: int) -> None:
        """A claim, and the same again as after a lost answer."""
        claimer, token = self.processes[process], rows.token()
        for _ in range(2):
            claimed = self.do(claimer.claim(queues=queues, token=token, limit=limit))
        expected = self.model.claim(queues, claimer.executor, OwnerToken(token), limit)
        assert [run.workflow_id for run in claimed] == expected
        for run in claimed:
            assert run.attempts == self.model.runs[run.workflow_id].attempts
            self.fences.append(Fence(run.workflow_id, OwnerToken(token)))

    @precondition(lambda self: self.dying is None and self._second_owns())
    @rule(limit=st.integers(0, 2))
    def take_over(self, limit: int) -> None:
        """The second process is judged and, in bounded batches, taken over."""
        victim = self.processes[1]
        self.do(victim.link.close())
        self.site.clock.advance(victim.lease.period_ms + 1)
        self.do(self.first.beat())
        self.dying = victim, self.do(self.first.accuse(victim))
        self.processes[1] = self.do(self.site.process(victim.store))
        if limit:
            self._take(limit)

    @precondition(lambda self: self.dying is not None)
    @rule(limit=st.integers(1, 3))
    def take_over_more(self, limit: int) -> None:
        """The next batch of a takeover under way."""
        self._take(limit)

    def _second_owns(self) -> bool:
        return bool(self.model.owned(self.processes[1].executor))

    def _take(self, limit: int) -> None:
        assert self.dying is not None
        victim, suspect = self.dying
        before = self.model.owned(victim.executor)
        result = self.do(self.first.store.take_over(suspect, limit))
        after = set(self.do(self.first.store.owned(victim.executor)))
        assert after <= before
        moved = {fence.workflow_id for fence in before - after}
        self.model.hand_over(moved)
        assert (result.moved, result.refused) == (min(limit, len(before)), False)
        assert result.finished is (not after)
        with pytest.raises(LeaseLost):
            self.do(victim.start(rows.direct(rows.fresh("late"))))
        with pytest.raises(LeaseLost):
            self.do(victim.claim(queues=SERVED))
        if result.finished:
            self.dying = None

    @rule()
    def time_passes(self) -> None:
        """What was delayed becomes due."""
        self.site.clock.advance(2 * HOUR_MS)

    def _moment(self) -> int:
        return self.do(self.first.store.now_ms())

    @invariant()
    def the_rows_agree(self) -> None:
        """State, owner and all else of every row are the model's."""
        if not self.model.runs:
            return
        found = self.do(self.first.store.list_workflows(rows.by_ids(*IDS)))
        assert {row.workflow_id for row in found} == set(self.model.runs)
        for row in found:
            run = self.model.runs[row.workflow_id]
            shown = (row.state, row.owner, row.queue_name, row.deduplication_id, row.attempts)
            assert shown == (run.state, run.owner, run.queue, run.dedup, run.attempts), row
            assert (row.executor_id, row.priority) == (run.executor, run.priority)
            assert (row.output, row.error) == (run.output, run.error)

    @invariant()
    def the_histories_agree(self) -> None:
        """The steps of every run are those that were written, in order."""
        found = self.do(self.first.store.history(IDS)) if self.model.runs else {}
        for workflow_id, run in self.model.runs.items():
            steps = found.get(workflow_id, [])
            assert [step.step_id for step in steps] == sorted(run.steps)
            assert {s.step_id: (s.name, s.completed_at_ms) for s in steps} == run.steps

    @invariant()
    def the_questions_agree(self) -> None:
        """`settled`, `lost` and `owned` say what the rows say."""
        if not self.model.runs:
            return
        store = self.first.store
        settled = self.do(store.settled(IDS))
        ended = {wid for wid, run in self.model.runs.items() if run.state.is_terminal}
        assert {outcome.workflow_id for outcome in settled.outcomes} == ended
        assert set(settled.missing) == set(IDS) - set(self.model.runs)
        expected = {f.workflow_id for f in self.fences if not self.model.held(*f)}
        assert set(self.do(store.lost(self.fences))) == expected
        for process in self.processes:
            assert set(self.do(store.owned(process.executor))) == self.model.owned(process.executor)


class QueueMachine(StoreMachine):
    """The same, with limits that the processes share and with what is due in time."""

    @rule(
        process=processes,
        queues=st.sampled_from([SHARED, SHARED[::-1], SHARED[:1], SHARED[1:]]),
        limit=st.integers(1, 5),
    )
    def claim_shared(self, process: int, queues: tuple[str, ...], limit: int) -> None:
        """A claim under limits, and the same again as after a lost answer."""
        claimer, token = self.processes[process], OwnerToken(rows.token())
        moment = self._moment()
        rooms = {name: min(self.model.room(name, moment), limit) for name in queues}
        wanted = {name: self.model.waiting(name)[: rooms[name]] for name in queues}
        for _ in range(2):
            claim = self.do(claimer.claim_shared(*queues, token=token, limit=limit))
        assert [turn.queue_name for turn in claim.turns] == list(queues)
        taken = [run.workflow_id for run in claim.runs]
        # Which queue gives what where all together have more than the limit is not promised.
        assert len(taken) == min(limit, sum(len(ids) for ids in wanted.values()))
        for name, ids in wanted.items():
            of_queue = [wid for wid in taken if self.model.runs[wid].queue == name]
            assert of_queue == ids[: len(of_queue)]
        assert taken == sorted(taken, key=self.model.place)
        self.model.take(taken, claimer.executor, token)
        self.fences += [Fence(run.workflow_id, run.owner) for run in claim.runs]
        for workflow_id in taken:
            at_ms = self.do(self.site.read(workflow_id)).started_at_ms
            assert at_ms is not None
            self.model.limits[self.model.runs[workflow_id].queue or ""].claims_ms.append(at_ms)

    @rule(process=processes, concurrency=st.integers(1, 3))
    def change_a_limit(self, process: int, concurrency: int) -> None:
        """More or fewer may run from now on."""
        self.do(self.processes[process].queue("narrow", concurrency=concurrency))
        self.model.limits["narrow"].concurrency = concurrency

    @rule(limit=st.integers(1, 4))
    def sweep(self, limit: int) -> None:
        """What is due becomes ENQUEUED."""
        due = self.model.due(self._moment())
        swept = self.do(self.first.store.sweep(limit))
        states = {wid: self.do(self.site.read(wid)).state for wid in due}
        moved = {wid for wid, state in states.items() if state is WorkflowState.ENQUEUED}
        assert (swept.moved, swept.expired) == (min(limit, len(due)), ())
        assert len(moved) == swept.moved
        assert sorted(due[workflow_id] for workflow_id in moved) == sorted(due.values())[:limit]
        assert set(swept.ready) == self.model.sweep(moved)
        assert swept.more or len(due) <= limit


def explore(database: Database, examples: int, steps: int) -> None:
    """Search for a life in which the database and the model disagree."""
    machine = type("Machine", (QueueMachine,), {"database": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_store_in_memory_agrees_with_the_model(memory_database: Database) -> None:
    """Every answer and every row, over random lives of runs."""
    explore(memory_database, examples=40, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_sqlite_store_agrees_with_the_model(sqlite_database: Database, tmp_path: Path) -> None:
    """Every answer and every row, over random lives of runs."""
    assert tmp_path.exists()
    explore(sqlite_database, examples=20, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_postgres_store_agrees_with_the_model(postgres_database: Database) -> None:
    """Every answer and every row, over random lives of runs."""
    explore(postgres_database, examples=20, steps=40)
