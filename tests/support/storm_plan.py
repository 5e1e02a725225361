"""What a storm is made of: queues with every kind of limit, and workflows that a seed decides."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

from msgspec.structs import replace

from perdure import Queue, RateLimit
from perdure.model.queue import QueueLimits, Rate

VERSIONS = ("v1", "v2", "v3")
PROCESSES_EACH = 2
KEYS = ("a", "b", "c")
RATE = RateLimit(5, period=0.5)

QUEUES = (
    *(Queue(f"global-{most}", global_concurrency=most) for most in range(1, 6)),
    *(Queue(f"worker-{most}", worker_concurrency=most) for most in range(1, 4)),
    Queue("rate", rate_limit=RATE),
    *(Queue(f"partition-{most}", partition_concurrency=most) for most in (1, 2)),
    Queue(
        "mixed",
        worker_concurrency=2,
        global_concurrency=4,
        rate_limit=RateLimit(10, period=0.5),
        partition_concurrency=2,
        partition_worker_concurrency=1,
        partition_rate_limit=RATE,
    ),
)
LIMITS = {queue.name: queue.settings.limits for queue in QUEUES}

FAILING = 0.1
"""The share of the workflows that end with an error."""


@dataclass(frozen=True, slots=True)
class Job:
    """One workflow; `pause_s` is how long it takes, spread over its steps."""

    id: str
    queue: str
    partition_key: str | None
    version: str
    pause_s: float
    fails: bool


def jobs_of(count: int, mean_s: float, chance: random.Random) -> list[Job]:
    """The workflows of a storm, as many of each queue as let all take about as long."""
    shares = {queue.name: _capacity(queue, mean_s) for queue in QUEUES}
    whole = sum(shares.values())
    return [
        Job(
            id=f"{queue.name}.{number}",
            queue=queue.name,
            partition_key=chance.choice(KEYS) if queue.partitioned else None,
            version=chance.choice(VERSIONS),
            pause_s=chance.uniform(0.05, 1.95) * mean_s,
            fails=chance.random() < FAILING,
        )
        for queue in QUEUES
        for number in range(max(round(count * shares[queue.name] / whole), 1))
    ]


def _capacity(queue: Queue, mean_s: float) -> float:
    """About how many workflows of that mean duration the limits let run at a time.

    The limit of a process alone allows far more than the others; it gets a part of that.
    """
    limits = queue.settings.limits
    bounds = [
        limits.concurrency,
        limits.worker and limits.worker * PROCESSES_EACH,
        limits.rate and limits.rate.limit / limits.rate.period_s * mean_s,
        limits.partition_concurrency and limits.partition_concurrency * len(KEYS),
    ]
    return min(bound for bound in bounds if bound)


def least_s(queue: str, jobs: list[Job]) -> float:
    """How long the workflows of one queue take at least, by its limits and nothing else."""
    limits = LIMITS[queue]
    whole = replace(limits, partition_worker=None, partition_concurrency=None, partition_rate=None)
    part = QueueLimits(
        worker=limits.partition_worker,
        concurrency=limits.partition_concurrency,
        rate=limits.partition_rate,
    )
    by_key: defaultdict[str | None, list[Job]] = defaultdict(list)
    for job in jobs:
        by_key[job.partition_key].append(job)
    return max(_least_of(whole, jobs), *(_least_of(part, each) for each in by_key.values()))


def _least_of(limits: QueueLimits, jobs: list[Job]) -> float:
    by_version: defaultdict[str, float] = defaultdict(float)
    for job in jobs:
        by_version[job.version] += job.pause_s
    bounds = [max((job.pause_s for job in jobs), default=0.0)]
    if limits.concurrency is not None:
        bounds.append(sum(by_version.values()) / limits.concurrency)
    if limits.worker is not None:
        # A workflow is for the processes of one version.
        bounds.append(max(by_version.values()) / (limits.worker * PROCESSES_EACH))
    if limits.rate is not None:
        bounds.append(_least_by(limits.rate, len(jobs)))
    return max(bounds)


def _least_by(rate: Rate, count: int) -> float:
    return (count - 1) // rate.limit * rate.period_s
