"""The rules of runs and their owners, as simply as they can be said: every store must agree."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.model.answer import AnswerKind
from perdure.model.ids import ExecutorId, OwnerToken, WorkflowId
from perdure.model.queue import Rate
from perdure.model.status import WorkflowState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import Checkpoint, Fence, Finish, Release, Start

WRITTEN, MINE = AnswerKind.WRITTEN, AnswerKind.MINE
CONFLICT, LOST = AnswerKind.CONFLICT, AnswerKind.LOST
OUTCOMES = (WorkflowState.SUCCESS, WorkflowState.ERROR)


@dataclass
class Run:
    """One workflow row."""

    state: WorkflowState
    creator: OwnerToken
    owner: OwnerToken | None
    executor: ExecutorId
    queue: str | None
    dedup: str | None
    priority: int
    attempts: int
    created_ms: int = 0
    due_ms: int = 0
    steps: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    output: str | None = None
    error: str | None = None

    def hand_back(self, state: WorkflowState) -> None:
        """Leave the execution, for the next one."""
        self.state, self.owner = state, None
        self.queue = self.queue or INTERNAL_QUEUE

    def end(self, state: WorkflowState) -> None:
        """Leave the active states."""
        self.state, self.owner, self.dedup = state, None, None
        if state not in OUTCOMES:
            self.queue = None


@dataclass
class Limits:
    """What bounds the claims from a queue, and when they were."""

    concurrency: int | None = None
    rate: Rate | None = None
    claims_ms: list[int] = field(default_factory=list)


class RunModel:
    """All rows, and what each call does to them and answers."""

    def __init__(self) -> None:
        self.runs: dict[WorkflowId, Run] = {}
        self.limits: dict[str, Limits] = {}

    def held(self, workflow_id: WorkflowId, owner: OwnerToken) -> bool:
        """Whether the run is PENDING under that token."""
        run = self.runs.get(workflow_id)
        return run is not None and run.state is WorkflowState.PENDING and run.owner == owner

    def holder(self, queue: str | None, dedup: str | None) -> WorkflowId | None:
        """Who holds that deduplication id of that queue."""
        if queue is None or dedup is None:
            return None
        for workflow_id, run in self.runs.items():
            if (run.queue, run.dedup) == (queue, dedup):
                return workflow_id
        return None

    def start(self, item: Start, executor: ExecutorId) -> tuple[AnswerKind, WorkflowId | None]:
        """What a start answers, and the id of what stands in its way."""
        new, caller = item
        standing = self.runs.get(new.workflow_id)
        if standing is not None:
            mine = standing.creator == new.creator
            return (MINE, None) if mine else (CONFLICT, new.workflow_id)
        holder = self.holder(new.queue_name, new.deduplication_id)
        if holder is not None:
            return CONFLICT, holder
        if caller is not None:
            answer = self.record(caller)
            if answer is not WRITTEN:
                return CONFLICT if answer is MINE else answer, None
        direct = new.state is WorkflowState.PENDING
        self.runs[new.workflow_id] = Run(
            state=new.state,
            creator=new.creator,
            owner=new.creator if direct else None,
            executor=executor,
            queue=new.queue_name,
            dedup=new.deduplication_id,
            priority=new.priority,
            attempts=1 if direct else 0,
        )
        return WRITTEN, None

    def record(self, item: Checkpoint) -> AnswerKind:
        """What recording a step answers."""
        run = self.runs.get(item.workflow_id)
        if run is not None and item.step_id in run.steps:
            same = run.steps[item.step_id] == (item.name, item.completed_at_ms)
            return MINE if same else CONFLICT
        if run is None or not self.held(item.workflow_id, item.owner):
            return LOST
        run.steps[item.step_id] = (item.name, item.completed_at_ms)
        return WRITTEN

    def finish(self, item: Finish) -> AnswerKind:
        """What an ending answers."""
        run = self.runs.get(item.workflow_id)
        if run is not None and run.state.is_terminal:
            return MINE
        if run is None or not self.held(item.workflow_id, item.owner):
            return LOST
        run.end(item.state)
        run.output, run.error = item.output, item.error
        return WRITTEN

    def release(self, item: Release) -> AnswerKind:
        """What giving a run back answers."""
        run = self.runs.get(item.workflow_id)
        if run is None or not self.held(item.workflow_id, item.owner):
            return LOST
        delayed = item.delay_ms is not None
        run.hand_back(WorkflowState.DELAYED if delayed else WorkflowState.ENQUEUED)
        run.attempts = max(run.attempts - item.give_back, 0)
        return WRITTEN

    def cancel(self, ids: list[WorkflowId]) -> set[WorkflowId]:
        """Which rows a cancel changes."""
        changed = set()
        for workflow_id in ids:
            run = self.runs.get(workflow_id)
            if run is not None and run.state not in OUTCOMES:
                run.end(WorkflowState.CANCELLED)
                changed.add(workflow_id)
        return changed

    def due(self, now_ms: int) -> dict[WorkflowId, int]:
        """What a sweep may make ENQUEUED, and since when."""
        return {
            workflow_id: run.due_ms
            for workflow_id, run in self.runs.items()
            if run.state is WorkflowState.DELAYED and run.due_ms <= now_ms
        }

    def sweep(self, moved: set[WorkflowId]) -> set[str | None]:
        """Those were made ENQUEUED: in these queues."""
        for workflow_id in moved:
            self.runs[workflow_id].state = WorkflowState.ENQUEUED
        return {self.runs[workflow_id].queue for workflow_id in moved}

    def claim(
        self, queues: tuple[str, ...], executor: ExecutorId, owner: OwnerToken, limit: int
    ) -> list[WorkflowId]:
        """Which rows a claim of that share of each queue takes, in order."""
        taken = [workflow_id for queue in queues for workflow_id in self.waiting(queue)[:limit]]
        self.take(taken, executor, owner)
        return sorted(taken, key=self.place)

    def waiting(self, queue: str) -> list[WorkflowId]:
        """The ENQUEUED rows of a queue, in the order of claims."""
        found = [
            workflow_id
            for workflow_id, run in self.runs.items()
            if run.state is WorkflowState.ENQUEUED and run.queue == queue
        ]
        return sorted(found, key=self.place)

    def place(self, workflow_id: WorkflowId) -> tuple[int, int, WorkflowId]:
        """What the order of claims goes by."""
        run = self.runs[workflow_id]
        return run.priority, run.created_ms, workflow_id

    def take(self, taken: list[WorkflowId], executor: ExecutorId, owner: OwnerToken) -> None:
        """Those rows were claimed."""
        for workflow_id in taken:
            run = self.runs[workflow_id]
            run.state, run.owner, run.executor = WorkflowState.PENDING, owner, executor
            run.attempts += 1

    def room(self, queue: str, now_ms: int) -> int:
        """How many more the limits of a queue let be claimed from it."""
        limits, rooms = self.limits[queue], [len(self.runs)]
        if limits.concurrency is not None:
            states = [run.state for run in self.runs.values() if run.queue == queue]
            rooms.append(limits.concurrency - states.count(WorkflowState.PENDING))
        if limits.rate is not None:
            after_ms = now_ms - limits.rate.period_s * 1000
            in_window = [at_ms for at_ms in limits.claims_ms if at_ms > after_ms]
            rooms.append(limits.rate.limit - len(in_window))
        return max(min(rooms), 0)

    def owned(self, executor: ExecutorId) -> set[Fence]:
        """What an executor has PENDING."""
        return {
            Fence(workflow_id, run.owner)
            for workflow_id, run in self.runs.items()
            if run.state is WorkflowState.PENDING and run.executor == executor and run.owner
        }

    def hand_over(self, moved: set[WorkflowId]) -> None:
        """Those runs went back to their queues from a dead boot."""
        for workflow_id in moved:
            self.runs[workflow_id].hand_back(WorkflowState.ENQUEUED)
