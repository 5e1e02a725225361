"""Decides when to look for work, in which queues, and for how much.

One for all queues of a process. It sleeps until something says that there may be work: an enqueue
here, a hint of another process, a heartbeat that saw some, a slot that was freed, an instant at
which a rate's window has room. A queue found full is looked into again when there is room, and
else at intervals that grow.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perdure.engine.claimer import Claimer
from perdure.engine.hints import HintKind, Hints
from perdure.engine.queues import RegisteredQueues
from perdure.engine.runner import Runner
from perdure.engine.services import Loop, Tasks
from perdure.engine.time import DatabaseTime
from perdure.model.queue import Load, QueueRow, QueueSettings, QueueTurn
from perdure.model.workflow import QueueShare
from perdure.ports.ids import Ids

CLAIM_BATCH = 500
QUEUES_AT_ONCE = 100

LONGEST_CLAIM_S = 2.0
"""How long a stop waits for a claim; a database that is away must not hold it up."""

STARVED_PAUSE_S = 0.05
"""When a process that is busy with all it can run looks again: a run that begins to wait makes room
without saying so."""

CHANGE_PAUSE_S = 0.1
"""How long a full queue is left alone after a commit that may have made room in it."""

COLLISION_S = 0.002
LONGEST_COLLISION_S = 0.1


class Pace(NamedTuple):
    """How much a process takes on, and how often its heartbeat looks around."""

    max_running: int
    heartbeat_s: float


@dataclass(slots=True)
class Mark:
    """What is remembered of one queue between looks.

    `has_backlog`: the last look left something behind, or may have. `is_blocked`: it was full, and
    a heartbeat that sees its backlog tells nothing new until `frees_at_ms`, if that is known.
    `is_hurried`: it is looked into soon in spite of that. `is_wanted`: another process waits for
    room.
    """

    has_backlog: bool = True
    is_blocked: bool = False
    frees_at_ms: int | None = None
    is_hurried: bool = False
    is_wanted: bool = False
    after_key: str = ""
    collisions: int = 0
    interval_s: float = 0.0
    timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Forget when it was to be looked at next."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.is_blocked = self.is_hurried = False
        self.frees_at_ms = None

    def may_have_room(self, now_ms: int) -> bool:
        """Whether it is worth looking: timers stand still while a machine is suspended."""
        frees_at_ms = self.frees_at_ms
        return not self.is_blocked or (frees_at_ms is not None and frees_at_ms <= now_ms)


class Surroundings(NamedTuple):
    """What the dispatcher works with."""

    queues: RegisteredQueues
    claimer: Claimer
    runner: Runner
    hints: Hints
    time: DatabaseTime
    ids: Ids


class Dispatcher(Loop):
    """The queues to look into, and the loop that does."""

    def __init__(self, tasks: Tasks, around: Surroundings, pace: Pace) -> None:
        super().__init__(tasks, "dispatcher")
        self._queues = around.queues
        self._claimer = around.claimer
        self._runner = around.runner
        self._hints = around.hints
        self._time = around.time
        self._ids = around.ids
        self._pace = pace
        self._hot: dict[str, None] = {}
        self._marks: dict[str, Mark] = {}
        self._is_starved = False
        self._freed = 0

    def look_in(self, *names: str) -> None:
        """There may be room in these queues, or something to take for whoever has room."""
        for name in names:
            self._mark(name).cancel()
            self._hot[name] = None
        if names:
            self.wake()

    def work_in(self, name: str) -> None:
        """Work arrived in the queue."""
        if name in self._hot or not self._queues.may_be(name):
            return
        row = self._queues.known(name)
        mark = self._mark(name)
        mark.has_backlog = True
        # What arrives in a full queue makes no room, but it may be of a partition that has some.
        if not mark.is_blocked or (row is not None and row.settings.partitioned):
            self.look_in(name)

    def change_in(self, name: str) -> None:
        """Somebody committed something, and there is work in the queue: maybe there is room too.

        Many commits make none, so that a full queue is looked into now and then only.
        """
        mark = self._mark(name)
        if not mark.is_blocked:
            self.work_in(name)
        elif not mark.is_hurried and mark.frees_at_ms is None:
            self._later(name, mark, CHANGE_PAUSE_S)
            mark.is_blocked = mark.is_hurried = True

    def look_everywhere(self) -> None:
        """Something may have happened in any queue."""
        self._queues.distrust()
        self.look_in(*self._queues.served)

    def look_around(self, ready: Iterable[str], digest: str) -> None:
        """A heartbeat saw claimable rows in these queues, and the queues as they are registered."""
        self._queues.see(digest)
        if self._queues.is_stale:
            self.wake()
        now_ms = self._time.now_ms()
        self.look_in(*[name for name in ready if self._mark(name).may_have_room(now_ms)])

    def tell_all(self) -> None:
        """Let every other process look everywhere too."""
        self._hints.announce(HintKind.ALL)

    def wanted(self, name: str) -> None:
        """Another process waits for room in the queue."""
        self._mark(name).is_wanted = True

    def slot_freed(self, name: str) -> None:
        """A workflow of the queue is not this process's any more."""
        mark = self._mark(name)
        if mark.has_backlog:
            mark.cancel()
            self._hot[name] = None
            self._freed += 1
            if not self._is_starved or self._freed >= self._least_room:
                self.wake()
        elif mark.is_wanted:
            self._give_room(name, mark)

    async def stop(self) -> None:
        """Claim nothing more; what a claim under way takes is begun, for the stop to give back."""
        for mark in self._marks.values():
            mark.cancel()
        await self.finish(LONGEST_CLAIM_S)

    async def turn(self) -> float | None:
        """Look once into the queues that are due, as far as this process has room."""
        if self._queues.is_stale:
            await self._queues.refresh()
        self.look_in(*self._queues.news())
        room = self._room() if self._claimer.can_run else 0
        if room == 0:
            return STARVED_PAUSE_S if self._claimer.can_run and self._hot else None
        rows = [(name, self._queues.known(name)) for name in self._pick()]
        try:
            await self._look_open([pair for pair in rows if not _is_shared(pair[1])], room)
            await self._look_shared([pair for pair in rows if _is_shared(pair[1])], room)
        except Exception:
            # Without waking: what failed is tried again after the loop's pause.
            self._hot.update(dict.fromkeys(name for name, _ in rows))
            raise
        return 0 if self._hot else None

    def _room(self) -> int:
        """How many workflows to take on; those that only wait do not count as run."""
        most = self._pace.max_running
        running = len(self._runner.runs)
        if running > most // 2:
            running = self._runner.busy()
        room = min(most - running, CLAIM_BATCH)
        self._is_starved = room < self._least_room
        self._freed = 0
        return 0 if self._is_starved else room

    @property
    def _least_room(self) -> int:
        """Less is not worth a claim, which costs a statement, nor the count of what runs."""
        return max(min(self._pace.max_running, CLAIM_BATCH) // 4, 1)

    def _pick(self) -> list[str]:
        """The next queues to look into; what is no longer served is dropped."""
        served = frozenset(self._queues.served)
        picked: list[str] = []
        for name in list(self._hot)[:QUEUES_AT_ONCE]:
            del self._hot[name]
            if name in served:
                picked.append(name)
        return picked

    async def _look_open(self, rows: Sequence[tuple[str, QueueRow | None]], room: int) -> None:
        """One claim from the queues without shared limits, each with a fair share of the room."""
        if not rows:
            return
        fair = max(room // len(rows), 1)
        shares: list[QueueShare] = []
        for name, row in rows:
            limit = min(fair, self._worker_room(name, row, fair))
            if limit > 0:
                shares.append(QueueShare(name, limit))
            else:
                self._mark(name).has_backlog = True
        if not shares:
            return
        taken = await self._claimer.take(shares)
        if taken is None:
            self.look_in(*[name for name, _ in rows])
            return
        for name, limit in shares:
            mark = self._mark(name)
            mark.has_backlog = taken[name] >= limit
            if mark.has_backlog:
                self._hot[name] = None
            else:
                self._poll_later(name, mark)

    async def _look_shared(self, rows: Sequence[tuple[str, QueueRow | None]], room: int) -> None:
        """One claim from the queues with limits that the fleet shares."""
        loads: list[Load] = []
        for name, row in rows:
            if self._worker_room(name, row, room) > 0:
                loads.append(self._load(name))
            else:
                self._mark(name).has_backlog = True
        if not loads:
            return
        turns = await self._claimer.take_shared(loads, room)
        if turns is None:
            self.look_in(*[load.queue_name for load in loads])
            return
        for turn in turns:
            self._after(turn)

    def _after(self, turn: QueueTurn) -> None:
        name = turn.queue_name
        mark = self._mark(name)
        if turn.contended:
            mark.collisions += 1
            pause_s = min(COLLISION_S * 2**mark.collisions, LONGEST_COLLISION_S)
            self._later(name, mark, pause_s * self._ids.jitter())
            return
        mark.collisions = 0
        mark.after_key = turn.after_key
        mark.has_backlog = turn.is_full or turn.has_more or turn.taken > 0
        if turn.is_full:
            self._wait_for_room(name, mark, turn.frees_at_ms)
            return
        mark.interval_s = 0.0
        if turn.has_more or (turn.taken and _has_rate(self._queues.known(name))):
            # A look that finds a rate's window full says when there is room again.
            self._hot[name] = None
        elif not turn.taken:
            if mark.is_wanted:
                self._give_room(name, mark)
            self._poll_later(name, mark)

    def _wait_for_room(self, name: str, mark: Mark, frees_at_ms: int | None) -> None:
        if frees_at_ms is not None:
            pause_s = max(self._time.seconds_until(frees_at_ms), 0.0) + 0.001
            self._later(name, mark, pause_s)
        else:
            row = self._queues.known(name)
            settings = QueueSettings(name=name) if row is None else row.settings
            if not mark.interval_s and not self._claimer.tally.running(name):
                # Who runs some of it looks again when they end.
                self._hints.announce(HintKind.WANTED, name)
            longer_s = max(mark.interval_s * 2, settings.base_polling_interval_s)
            mark.interval_s = min(longer_s, settings.max_polling_interval_s)
            self._later(name, mark, mark.interval_s * self._nearly_one())
        mark.is_blocked = True
        mark.frees_at_ms = frees_at_ms

    def _poll_later(self, name: str, mark: Mark) -> None:
        """Look again by itself where the queue asks for more than the heartbeat does."""
        row = self._queues.known(name)
        if row is not None and row.settings.base_polling_interval_s < self._pace.heartbeat_s:
            self._later(name, mark, row.settings.base_polling_interval_s * self._nearly_one())

    def _give_room(self, name: str, mark: Mark) -> None:
        mark.is_wanted = False
        self._hints.announce(HintKind.ROOM, name)

    def _later(self, name: str, mark: Mark, seconds: float) -> None:
        mark.cancel()
        mark.timer = asyncio.get_running_loop().call_later(seconds, self.look_in, name)

    def _nearly_one(self) -> float:
        """Jitter of five in a hundred, so that processes drift apart."""
        return 1 + (self._ids.jitter() - 1) / 10

    def _worker_room(self, name: str, row: QueueRow | None, most: int) -> int:
        limit = None if row is None else row.settings.limits.worker
        return most if limit is None else limit - self._claimer.tally.running(name)

    def _load(self, name: str) -> Load:
        tally = self._claimer.tally
        return Load(
            name,
            tally.running(name),
            tuple(tally.by_partition(name).items()),
            self._mark(name).after_key,
        )

    def _mark(self, name: str) -> Mark:
        mark = self._marks.get(name)
        if mark is None:
            mark = self._marks[name] = Mark()
        return mark


def _has_rate(row: QueueRow | None) -> bool:
    limits = None if row is None else row.settings.limits
    return limits is not None and (limits.rate or limits.partition_rate) is not None


def _is_shared(row: QueueRow | None) -> bool:
    """Whether claims from the queue go through its lock."""
    return row is not None and (row.settings.limits.are_shared or row.settings.partitioned)
