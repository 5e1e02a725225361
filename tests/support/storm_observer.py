"""What a storm left behind, judged: by the database's own log of ownership, and by its bodies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from perdure.model.queue import QueueLimits, Rate
from tests.support.ownership import Entry, most_in_window, peak
from tests.support.storm_plan import LIMITS, Job, least_s
from tests.support.storm_program import NOTED_STEPS, STEPS

Group = Callable[[Entry], Hashable]


@dataclass(frozen=True, slots=True)
class Left:
    """What is found at the end: the log of ownership, the log of effects, and the rows.

    `states` is each workflow's state, `results` its stored result, `steps` how many are recorded.
    """

    entries: list[Entry]
    effects: Path
    states: dict[str, str]
    results: dict[str, str | None]
    steps: dict[str, int]


class Figures(NamedTuple):
    """One queue: how often it was claimed from, how many were owned at once, how long it took.

    `least_s` is the shortest time that its limits allow, were nobody killed or stopped; `filled` is
    the share of what the limits allow that was in use while work waited.
    """

    queue: str
    workflows: int
    claims: int
    most_at_once: int
    least_s: float
    took_s: float
    filled: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything that is wrong, and the figures of each queue."""

    problems: list[str]
    figures: list[Figures]


def judge(jobs: list[Job], left: Left) -> Verdict:
    """Whether every limit was kept and every workflow ended once and right."""
    by_queue: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_queue[job.queue].append(job)
    claims = Counter(entry.workflow_id for entry in left.entries if entry.begins)
    bodies, step_runs = _bodies(jobs, left.effects, claims)
    problems: list[str] = []
    figures: list[Figures] = []
    for queue, its_jobs in by_queue.items():
        limits = LIMITS[queue]
        owned = [entry for entry in left.entries if entry.queue == queue]
        run = [entry for entry in bodies if entry.queue == queue]
        found = {
            "owned": [*_too_many(limits, owned), *_too_fast(limits, owned)],
            "unused": _unused(limits, owned),
            "bodies": _too_many(limits, run),
        }
        problems += [f"{queue}: {what}: {each}" for what in found for each in found[what]]
        figures.append(_figures(queue, its_jobs, owned))
    of_workflow: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in left.entries:
        of_workflow[entry.workflow_id].append(entry)
    for job in jobs:
        wrong = [*_wrong(job, left), *_unlike(job, of_workflow[job.id], step_runs[job.id])]
        problems += [f"{job.id}: {each}" for each in wrong]
    return Verdict(problems, figures)


def _bodies(
    jobs: list[Job], effects: Path, claims: Counter[str]
) -> tuple[list[Entry], Counter[str]]:
    """When the bodies of what was claimed once began and ended, and how many steps each did.

    What is claimed once was not lost: its body is over before its row is at its end.
    """
    known = {job.id: job for job in jobs}
    told: list[tuple[int, Entry]] = []
    step_runs: Counter[str] = Counter()
    for line in effects.read_text().splitlines():
        what, workflow_id, process, at_ns = line.split()
        if what == "step":
            step_runs[workflow_id] += 1
        elif claims[workflow_id] == 1:
            job, at_ms = known[workflow_id], int(at_ns) // 1_000_000
            began = what == "begin"
            entry = Entry(
                began, workflow_id, job.queue, job.partition_key, process, None, "PENDING", at_ms
            )
            told.append((int(at_ns), entry))
    told.sort(key=lambda each: each[0])
    return [entry for _, entry in told], step_runs


def _too_many(limits: QueueLimits, entries: list[Entry]) -> Iterator[str]:
    """Every limit on how many there are that was, at some moment, exceeded."""
    for name, limit, group in _counted(limits):
        for key, most in peak(entries, group).items():
            if most > limit:
                yield f"{most} at once of {key} where {name} is {limit}"


def _too_fast(limits: QueueLimits, entries: list[Entry]) -> Iterator[str]:
    """Every limit on how many begin in a time that was, in some window, exceeded."""
    for name, rate, group in _rates(limits):
        for key, most in _most_by_window(entries, rate, group).items():
            if most > rate.limit:
                yield f"{most} in {rate.period_s:g} s of {key} where {name} is {rate.limit}"


def _unused(limits: QueueLimits, entries: list[Entry]) -> Iterator[str]:
    """Limits that never were reached, so that nothing is known of whether they are kept."""
    if limits.concurrency is not None and limits.rate is not None:
        return
    for name, limit, group in _counted(limits):
        most = max(peak(entries, group).values(), default=0)
        if most < limit:
            yield f"never more than {most} where {name} is {limit}"


def _counted(limits: QueueLimits) -> list[tuple[str, int, Group]]:
    """The limits that count what is owned, with what they count together."""
    every: list[tuple[str, int | None, Group]] = [
        ("the limit of the fleet", limits.concurrency, lambda entry: entry.queue),
        ("the limit of a process", limits.worker, process_of),
        ("that of a partition", limits.partition_concurrency, lambda entry: entry.partition_key),
        (
            "that of a partition in a process",
            limits.partition_worker,
            lambda entry: (process_of(entry), entry.partition_key),
        ),
    ]
    return [(name, limit, group) for name, limit, group in every if limit is not None]


def _rates(limits: QueueLimits) -> list[tuple[str, Rate, Group]]:
    every: list[tuple[str, Rate | None, Group]] = [
        ("the rate", limits.rate, lambda entry: entry.queue),
        ("the rate of a partition", limits.partition_rate, lambda entry: entry.partition_key),
    ]
    return [(name, rate, group) for name, rate, group in every if rate is not None]


def process_of(entry: Entry) -> str:
    """The process, whatever leases it had one after the other."""
    return entry.executor_id.partition("/")[0]


def _most_by_window(entries: list[Entry], rate: Rate, group: Group) -> dict[Hashable, int]:
    starts_ms: defaultdict[Hashable, list[int]] = defaultdict(list)
    for entry in entries:
        if entry.begins:
            starts_ms[group(entry)].append(entry.started_at_ms or 0)
    period_ms = round(rate.period_s * 1000)
    return {key: most_in_window(starts, period_ms) for key, starts in starts_ms.items()}


def _wrong(job: Job, left: Left) -> Iterator[str]:
    """What is not as it should be with the rows of one workflow."""
    state = "ERROR" if job.fails else "SUCCESS"
    if left.states.get(job.id) != state:
        yield f"is {left.states.get(job.id)}, not {state}"
    if not job.fails and left.results.get(job.id) != f'"{job.id}"':
        yield f"has the result {left.results.get(job.id)}"
    if left.steps.get(job.id) != STEPS:
        yield f"has {left.steps.get(job.id)} steps, not {STEPS}"


def _unlike(job: Job, owned: list[Entry], step_runs: int) -> Iterator[str]:
    """What is not as it should be with the history of one workflow."""
    ends = [entry.state for entry in owned if not entry.begins]
    claims = len(owned) - len(ends)
    state = "ERROR" if job.fails else "SUCCESS"
    if ends[-1:] != [state] or set(ends[:-1]) - {"ENQUEUED"} or claims != len(ends):
        yield f"was claimed {claims} times, and became {ends}"
    # What was under way when it was lost repeats, and nothing else.
    if not NOTED_STEPS <= step_runs < NOTED_STEPS + claims:
        yield f"did {step_runs} steps in {claims} claims"


def _figures(queue: str, jobs: list[Job], owned: list[Entry]) -> Figures:
    claims = sum(entry.begins for entry in owned)
    took_ms = owned[-1].at_ms - owned[0].at_ms if owned else 0
    return Figures(
        queue,
        len(jobs),
        claims,
        max(peak(owned).values(), default=0),
        least_s(queue, jobs),
        took_ms / 1000,
        _filled(queue, owned),
    )


def _filled(queue: str, owned: list[Entry]) -> float | None:
    """How far the one limit the fleet shares was used up, as long as work waited."""
    limits = LIMITS[queue]
    if limits.worker is not None:
        # Places come and go with the processes.
        return None
    if limits.rate is not None:
        return _filled_rate(limits.rate, owned)
    ((_, limit, group),) = _counted(limits)
    return _filled_places(owned, limit, group)


def _filled_rate(rate: Rate, owned: list[Entry]) -> float:
    starts_ms = [entry.started_at_ms or 0 for entry in owned if entry.begins]
    windows = (max(starts_ms) - min(starts_ms)) / 1000 // rate.period_s + 1
    return len(starts_ms) / (windows * rate.limit)


def _filled_places(owned: list[Entry], limit: int, group: Group) -> float:
    """The share of all places that were taken, over the time in which work waited for one."""
    groups: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    for entry in owned:
        groups[group(entry)].append(entry)
    taken_ms = whole_ms = 0
    for entries in groups.values():
        taken, waiting = 0, len({entry.workflow_id for entry in entries})
        before_ms = entries[0].at_ms
        for entry in entries:
            if waiting:
                taken_ms += taken * (entry.at_ms - before_ms)
                whole_ms += limit * (entry.at_ms - before_ms)
            before_ms = entry.at_ms
            taken += 1 if entry.begins else -1
            waiting += -1 if entry.begins else entry.state == "ENQUEUED"
    return taken_ms / whole_ms if whole_ms else 1.0
