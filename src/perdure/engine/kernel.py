"""The parts of one engine, put together, started and stopped in order."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, cast

from perdure.config import Retention
from perdure.engine.claimer import Claimer, Claims
from perdure.engine.committer import Lane, OpenClose, Retry
from perdure.engine.desk import Desk
from perdure.engine.dispatcher import Dispatcher, Pace, Surroundings
from perdure.engine.due import DueSweep, Followers
from perdure.engine.hearing import Waiting, WorkersEar
from perdure.engine.hints import HintKind, Hints
from perdure.engine.identity import Identity
from perdure.engine.intake import Intake
from perdure.engine.journal import Journal
from perdure.engine.launcher import Launcher
from perdure.engine.liveness import Heartbeat, Pulse
from perdure.engine.queues import QueueDeclaration, RegisteredQueues, register_queue
from perdure.engine.registry import Registry
from perdure.engine.retention import Purge, Purger
from perdure.engine.run import Run, RunFactory
from perdure.engine.runner import Ends, Runner
from perdure.engine.services import Service, Tasks
from perdure.engine.signals import Interest
from perdure.engine.sweeper import OwnershipPoll, SelfCheck, Takeovers
from perdure.engine.talk import Talk
from perdure.engine.tidings import Tidings
from perdure.engine.time import DatabaseTime, Trip
from perdure.engine.upkeep import Upkeep
from perdure.engine.waiter import Around, Waiter
from perdure.engine.watchman import Watchman
from perdure.errors import (
    DatabaseError,
    DatabaseUnavailable,
    LeaseLost,
    WaitInterrupted,
)
from perdure.logic.liveness import Rhythm
from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.lease import Beat, NewLease, Serves
from perdure.model.management import SetDelay
from perdure.model.status import WorkflowState
from perdure.model.workflow import (
    Checkpoint,
    NewWorkflow,
    StandingWorkflow,
    Start,
    StepRow,
    Together,
)
from perdure.ports.clock import Clock
from perdure.ports.ids import Ids
from perdure.ports.store import Store

log = logging.getLogger("perdure")


class KernelSettings(NamedTuple):
    """What the kernel is told; times in seconds.

    `queues` are registered at the start; `listen` narrows those the process serves.
    """

    application: str
    version: str
    executor_name: str
    rhythm: Rhythm
    stall_s: float
    grace_s: float
    threads: int
    queues: tuple[QueueDeclaration, ...] = ()
    listen: tuple[str, ...] | None = None
    max_running: int = 1000
    retention: Retention | None = None


class Ports(NamedTuple):
    """What comes from outside."""

    store: Store
    clock: Clock
    ids: Ids


class Kernel:
    """One engine at work. Built for one start; a stopped kernel is not started again."""

    def __init__(self, ports: Ports, registry: Registry, settings: KernelSettings) -> None:
        self.store = store = ports.store
        self.clock = ports.clock
        self.ids = ports.ids
        self.registry = registry
        self.settings = settings
        self.tasks = tasks = Tasks()
        self.loop = asyncio.get_running_loop()
        self.retry = retry = Retry(ports.clock, ports.ids)
        self.time = DatabaseTime(ports.clock)
        self.identity = Identity()
        self.threads = ThreadPoolExecutor(settings.threads, "perdure-step")
        self.stopping = False
        batch = store.capabilities.max_batch
        self._new_run: RunFactory = partial(Run, self)
        self._starts: Lane[Start, Answer[StandingWorkflow]] = Lane(
            "starts", self._write_starts, retry, max_batch=batch
        )
        self._steps: Lane[Checkpoint | Together, Answer[StepRow]] = Lane(
            "steps", self._write_steps, retry, max_batch=batch
        )
        self._ends = Ends(
            Lane("outcomes", store.finish, retry, max_batch=batch),
            Lane("releases", store.release, retry, max_batch=batch),
        )
        self.journal = Journal(store, self._steps, retry)
        self.talk = Talk(tasks, store, ports.clock, retry, registry.serialization)
        self._hints = Hints(tasks, store, ports.ids)
        self.tidings = Tidings(self._hints, self._runs_here)
        self.talk.signals.when_begun(self._on_interest)
        around = Around(self._runs_here, self.tidings.want, self._ended)
        self.waiter = Waiter(tasks, store, retry, around)
        self.runner = Runner(tasks, self.journal, registry, self._ends, self.waiter)
        self.launcher = Launcher(
            self._starts, self.time, self.runner, self._new_run, self._enqueued
        )
        self.queues = RegisteredQueues(store, retry, settings.listen)
        self.desk = Desk(self.talk, self.waiter, self._hints, ports.ids, settings.application, self)
        self.intake = Intake(
            self.desk, self.queues, self.launcher, settings.version, self.time.now_ms
        )
        self._ownership = OwnershipPoll(tasks, store, retry, self.runner, self.journal, self.time)
        self._dispatcher = self._build_dispatcher()
        self._due = self._build_due()
        self._ear = self._build_ear()
        self._takeovers = Takeovers(
            tasks, store, retry, settings.rhythm, self._dispatcher, ports.ids
        )
        self._heartbeat = Heartbeat(store, ports.clock, self._pulse(), self)
        self.purger = self._build_purger()
        self._services = self._build_services()

    def _build_services(self) -> Sequence[Service]:
        return (
            self.waiter,
            self._heartbeat,
            self._takeovers,
            *self._build_watches(),
            *([] if self.purger is None else [self.purger]),
            *self.talk.services,
            self._hints,
            self._due,
            self._dispatcher,
        )

    def _build_ear(self) -> WorkersEar:
        waiting = Waiting(self._hints, self.tidings, self.waiter, self.talk.signals)
        return WorkersEar(waiting, self._dispatcher, self._ownership)

    def _build_watches(self) -> Sequence[Service]:
        """Those that only look: at the runs here, our rows, what waits, and what is over."""
        tasks, store, retry = self.tasks, self.store, self.retry
        lease_s, releases = self.settings.rhythm.lease_s, self._ends.releases
        return (
            self._ownership,
            SelfCheck(tasks, store, retry, self.runner, self.identity, releases, lease_s),
            Watchman(tasks, store, retry, self.time, self.ids),
            Upkeep(tasks, store, retry, self.ids),
        )

    def _build_purger(self) -> Purger | None:
        """The one that removes what has ended, if somebody should."""
        retention = self.settings.retention
        if retention is None:
            return None
        purge = Purge(self.store, self.retry)
        return Purger(self.tasks, purge, retention.policy, retention.every_s, self.ids)

    def _build_due(self) -> DueSweep:
        followers = Followers(self._dispatcher, self._hints, self._rows_ended, self.ids)
        return DueSweep(self.tasks, self.store, self.retry, self.time, followers)

    def _build_dispatcher(self) -> Dispatcher:
        settings = self.settings
        claimer = Claimer(
            self.store,
            self.retry,
            self.registry,
            self.runner,
            Claims(self.identity, settings.version, self.ids, self._new_run),
            self._slot_freed,
        )
        return Dispatcher(
            self.tasks,
            Surroundings(self.queues, claimer, self.runner, self._hints, self.time, self.ids),
            Pace(settings.max_running, settings.rhythm.heartbeat_s),
        )

    def _runs_here(self, workflow_id: WorkflowId) -> bool:
        return workflow_id in self.runner.runs

    def _on_interest(self, interest: Interest) -> None:
        if interest.is_followed:
            self.tidings.want(interest.workflow_id)

    def _ended(self, workflow_id: WorkflowId) -> None:
        """A workflow has its outcome: whoever follows its streams looks, here and elsewhere."""
        self.talk.signals.hear_end(workflow_id)
        self.tidings.ended(workflow_id)

    def _rows_ended(self, ids: Sequence[WorkflowId]) -> None:
        """Workflows that run nowhere were ended in their rows by this process."""
        self.waiter.hear(ids)
        for workflow_id in ids:
            self._ended(workflow_id)

    def _slot_freed(self, queue: str) -> None:
        self._dispatcher.slot_freed(queue)

    def _pulse(self) -> Pulse:
        settings = self.settings
        return Pulse(
            executor_name=settings.executor_name,
            rhythm=settings.rhythm,
            stall_s=settings.stall_s,
            queues=lambda: self.queues.served,
            keys=lambda: () if self.stopping else self.registry.keys,
            serves=Serves(settings.version, settings.listen, tuple(map(str, self.registry.keys))),
            boot_id=self.ids.boot_id,
        )

    async def start(self) -> None:
        """Begin to work on an open store. A failure leaves nothing running."""
        try:
            asked_at_s = self.clock.monotonic()
            now_ms = await self.store.now_ms()
            self.time.set(now_ms, Trip(asked_at_s, self.clock.monotonic()))
            await self.store.register_version(self.settings.version)
            for declared in self.settings.queues:
                await register_queue(
                    self.store,
                    self.retry,
                    declared,
                    self.settings.application,
                    self.settings.version,
                )
            for lane in self._lanes():
                lane.open(self.tasks)
            for service in self._services:
                await service.start()
            self._dispatcher.look_everywhere()
            if self.settings.queues:
                self._dispatcher.tell_all()
        except BaseException:
            await self._end_everything()
            raise

    async def stop(self) -> None:
        """Stop claiming, release what only waits, let the rest finish in time, release that too.

        Workflows are never cancelled by this: what did not finish goes on in another process or
        at the next start.
        """
        self.stopping = True
        self._ear.takes_work = False
        try:
            await self._dispatcher.stop()
            await self._wind_down()
            # What this process gave back, and the room it leaves, are for others to take.
            self._dispatcher.tell_all()
            await self._hints.flush()
        finally:
            await self._end_everything()
        if left := self.runner.left_behind + len(self.runner.runs):
            log.warning(
                "%d workflows could not be given back before the stop; they go on when another "
                "process sees that this one has ended",
                left,
            )

    async def _wind_down(self) -> None:
        self.waiter.fail_elsewhere(WaitInterrupted)
        self.talk.end_waits(patient=False)
        give_up_at = self.loop.time() + self.settings.grace_s
        while self.runner.runs and self.loop.time() < give_up_at:
            self.runner.interrupt_waiting()
            await self.runner.until_empty(min(0.05, max(give_up_at - self.loop.time(), 0.001)))
        if self.runner.runs:
            log.info("%d workflows are interrupted and go on later", len(self.runner.runs))
            self.runner.interrupt_all()
            await self.runner.until_empty(_LAST_WORDS_S)

    async def _end_everything(self) -> None:
        reason = DatabaseUnavailable("the engine was stopped")
        for lane in self._lanes():
            await lane.close(reason)
        for service in reversed(self._services):
            await service.stop()
        self.waiter.fail_all(WaitInterrupted)
        self.talk.end_waits(patient=True)
        await self.tasks.end()
        for workflow_id in self.runner.runs:
            log.warning(
                "workflow %s takes no notice of its end: code of it still runs, and can record "
                "nothing more",
                workflow_id,
            )
        self.threads.shutdown(wait=False, cancel_futures=True)
        await self._end_lease()

    async def _end_lease(self) -> None:
        boot_id = self._heartbeat.boot_id
        if boot_id is not None:
            try:
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self.store.end_lease(boot_id)
            except (DatabaseError, TimeoutError) as error:
                log.warning("the lease of %s could not be ended, it runs out: %s", boot_id, error)

    def announce_queues(self) -> None:
        """A queue was registered, changed, paused or deleted: this process and others look."""
        self._dispatcher.look_everywhere()
        self._dispatcher.tell_all()

    def _enqueued(self, row: NewWorkflow) -> None:
        """A workflow of this process stands in a queue: whoever serves that may begin it."""
        deadline_ms = row.deadline_ms
        if row.state is WorkflowState.DELAYED:
            self._due.due_at(self.time.now_ms() + (row.delay_ms or 0))
        elif row.queue_name is not None:
            self._dispatcher.work_in(row.queue_name)
            self._hints.announce(HintKind.WORK, row.queue_name)
        if deadline_ms is not None:
            self._due.due_at(deadline_ms)

    async def taken(self, ids: Sequence[WorkflowId]) -> None:
        """These workflows were taken from whoever runs them: runs here need not wait to be told."""
        self.tidings.taken(ids)
        await self._ownership.look(ids)

    def work_came(self, queue: str) -> None:
        """Work arrived in the queue."""
        self._dispatcher.work_in(queue)

    def moved(self, command: SetDelay) -> None:
        """Workflows are due at another instant."""
        until_ms = command.until_ms
        self._due.due_at(
            self.time.now_ms() + (command.delay_ms or 0) if until_ms is None else until_ms
        )

    def _lanes(self) -> tuple[OpenClose, ...]:
        ends = self._ends
        return (
            self._starts,
            self._steps,
            ends.finishes,
            ends.releases,
            self.desk.commands,
            *self.talk.lanes,
        )

    async def _write_steps(self, items: Sequence[Checkpoint | Together]) -> list[Answer[StepRow]]:
        """Rows that belong together are one item; an open row that several bring is written once.

        A row that could not be written speaks for its item.
        """
        if not any(isinstance(item, Together) for item in items):
            return await self.store.record(cast("Sequence[Checkpoint]", items))
        places: dict[int, int] = {}
        rows: list[Checkpoint] = []
        for item in items:
            for row in _rows_of(item):
                if places.setdefault(id(row), len(rows)) == len(rows):
                    rows.append(row)
        answers = await self.store.record(rows)
        return [_spoken([answers[places[id(row)]] for row in _rows_of(item)]) for item in items]

    async def _write_starts(self, items: Sequence[Start]) -> list[Answer[StandingWorkflow]]:
        while True:
            executor_id = await self.identity.ready()
            try:
                return await self.store.start(items, executor_id)
            except LeaseLost:
                self.identity.drop(executor_id)

    def on_lease(self, lease: NewLease) -> None:
        """A lease stands: rows may be written in its name."""
        self.identity.adopt(lease.executor_id)
        # Hints may have been missed, and others had nobody here to tell what they wait for.
        self._dispatcher.look_everywhere()
        self._ear.begin()
        self._hints.announce(HintKind.LISTENING)

    def on_lease_lost(self, lease: NewLease) -> None:
        """This boot was taken for dead: its runs go on elsewhere, new ones wait for a new boot."""
        log.error(
            "process %s was taken for dead (it was stopped, stalled or cut off for longer than its "
            "lease); its workflows go on elsewhere, it takes a new identity",
            lease.executor_id,
        )
        self.identity.drop(lease.executor_id)

    def on_link_lost(self, at_s: float) -> None:
        """The heartbeat lost its connection: what it sees of others means little for a while."""
        self._takeovers.distrust(at_s)

    def on_beat(self, beat: Beat, trip: Trip) -> None:
        """A heartbeat was answered."""
        self.time.set(beat.now_ms, trip)
        if self.stopping:
            return
        self._takeovers.consider(beat, trip.middle_s)
        self._dispatcher.look_around(beat.ready, beat.queues)
        if beat.next_at_ms is not None:
            self._due.heard_of(beat.next_at_ms)

    def on_hint(self, text: str) -> None:
        """Another process announced something."""
        self._ear.hear(text)


_LAST_WORDS_S = 5.0
"""How long a stop waits for releases and for the end of the lease after the grace time."""


def _rows_of(item: Checkpoint | Together) -> tuple[Checkpoint, ...]:
    return (*item.openings, item.checkpoint) if isinstance(item, Together) else (item,)


def _spoken(answers: Sequence[Answer[StepRow]]) -> Answer[StepRow]:
    """What the answers to rows that belong together come to: the first that one does not have."""
    stands = (AnswerKind.WRITTEN, AnswerKind.MINE)
    return next((each for each in answers if each.kind not in stands), answers[-1])
