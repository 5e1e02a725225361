"""Why a workflow does not run, in one sentence, and what to do about it.

The checks stand in the order in which an operator must know: what ended or runs is told first, then
what time or a call decides, then what nobody will ever take, then who is missing, and last what is
merely full.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from shlex import quote

import msgspec

from perdure.logic.candidates import able, known, of_version, serving
from perdure.logic.phrases import plural, when
from perdure.model.circumstances import Circumstances, Share
from perdure.model.ids import BOOT_PREFIX
from perdure.model.lease import ProcessSeen
from perdure.model.queue import QueueLimits, Rate, Usage
from perdure.model.status import WorkflowState
from perdure.model.wire import INTERNAL_QUEUES

NAMED = 3
"""How many of a list are named in a sentence; the others are counted."""

AHEAD_COUNTED = 1_000
"""Up to which number the workflows ahead are counted."""


class Cause(StrEnum):
    """What decides at present whether a workflow runs."""

    ENDED = "ended"
    DEADLINE_PASSED = "deadline_passed"
    RUNNING = "running"
    OWNER_DEAD = "owner_dead"
    OWNER_FOREIGN = "owner_foreign"
    DELAYED = "delayed"
    QUEUE_UNKNOWN = "queue_unknown"
    PARTITION_KEY_MISSING = "partition_key_missing"
    QUEUE_PAUSED = "queue_paused"
    NO_PROCESS = "no_process"
    QUEUE_NOT_SERVED = "queue_not_served"
    VERSION_NOT_SERVED = "version_not_served"
    FUNCTION_NOT_SERVED = "function_not_served"
    GLOBAL_CONCURRENCY = "global_concurrency"
    RATE_LIMIT = "rate_limit"
    PARTITION_CONCURRENCY = "partition_concurrency"
    PARTITION_RATE_LIMIT = "partition_rate_limit"
    WORKER_CONCURRENCY = "worker_concurrency"
    PARTITION_WORKER_CONCURRENCY = "partition_worker_concurrency"
    BEHIND_OTHERS = "behind_others"
    ABOUT_TO_START = "about_to_start"


class Explanation(msgspec.Struct, frozen=True):
    """Why a workflow does not run (or that it does), as a sentence for a person in `text`.

    `until_ms` is when time alone changes it, if it does. `holders` are the executors it is about,
    with how many of the queue or partition each runs: the one that runs the workflow, or those that
    use up a limit.
    """

    cause: Cause
    text: str
    until_ms: int | None = None
    holders: tuple[Share, ...] = ()


def explain(circumstances: Circumstances) -> Explanation:
    """The first thing that keeps the workflow from running."""
    for check in _CHECKS:
        found = check(circumstances)
        if found is not None:
            return found
    return _about_to_start(circumstances)


def _ended(c: Circumstances) -> Explanation | None:
    row = c.row
    if not row.state.is_terminal:
        return None
    at = when(row.completed_at_ms or row.updated_at_ms, c.now_ms)
    found = quote(row.workflow_id)
    text = {
        WorkflowState.SUCCESS: f"It succeeded at {at}.",
        WorkflowState.ERROR: f"It ended with an error at {at}; `perdure workflow get {found}` "
        "shows the error.",
        WorkflowState.CANCELLED: f"It was cancelled at {at}, by somebody or by its deadline.",
        WorkflowState.MAX_RECOVERY_ATTEMPTS_EXCEEDED: f"It was set aside at {at} after "
        f"{plural(row.attempts, 'attempt')} without an outcome; find out what ends its process.",
    }[row.state]
    return Explanation(Cause.ENDED, text)


def _overdue(c: Circumstances) -> Explanation | None:
    deadline_ms = c.row.deadline_ms
    if deadline_ms is None or deadline_ms > c.now_ms:
        return None
    then = (
        "it is cancelled within moments."
        if c.processes
        else f"it is cancelled as soon as a process of {_application(c)} lives: start one."
    )
    return Explanation(
        Cause.DEADLINE_PASSED, f"Its deadline passed at {when(deadline_ms, c.now_ms)}; {then}"
    )


def _running(c: Circumstances) -> Explanation | None:
    executor = _owner(c)
    if executor is None or executor not in {each.executor_id for each in c.processes}:
        return None
    text = (
        f"It runs on {executor} since {_since(c)}; `perdure workflow steps "
        f"{quote(c.row.workflow_id)}` shows what it has recorded."
    )
    return Explanation(Cause.RUNNING, text, holders=((executor, 1),))


def _owner_dead(c: Circumstances) -> Explanation | None:
    executor = _owner(c)
    if executor is None or not executor.rpartition("/")[2].startswith(BOOT_PREFIX):
        return None
    then = (
        "another process takes it over within moments."
        if c.processes
        else f"no process of {_application(c)} lives to take it over: start one."
    )
    text = f"It ran on {executor} since {_since(c)}, which shows no sign of life; {then}"
    return Explanation(Cause.OWNER_DEAD, text, holders=((executor, 1),))


def _owner_foreign(c: Circumstances) -> Explanation | None:
    executor = _owner(c)
    if executor is None:
        return None
    text = (
        f"It is PENDING since {_since(c)} in the name of {executor or 'nobody'}, which is no "
        "process of Perdure: the SDK that started it runs it, or goes on with it when its process "
        "is started again."
    )
    return Explanation(Cause.OWNER_FOREIGN, text, holders=((executor, 1),) if executor else ())


def _delayed(c: Circumstances) -> Explanation | None:
    row = c.row
    if row.state is not WorkflowState.DELAYED:
        return None
    until_ms = row.delay_until_ms
    if until_ms is None:
        text = "It is delayed without an end, as only an outsider can have written it: cancel it."
        return Explanation(Cause.DELAYED, text)
    if until_ms <= c.now_ms:
        return None
    text = f"It is delayed until {when(until_ms, c.now_ms)}"
    if row.attempts:
        text += f", after {plural(row.attempts, 'attempt')} without an outcome"
    return Explanation(Cause.DELAYED, f"{text}.", until_ms)


def _queue_unknown(c: Circumstances) -> Explanation | None:
    row, queue = c.row, c.queue
    if row.queue_name is None:
        text = "It is in no queue, as only an outsider can have written it: cancel it."
    elif row.queue_name in INTERNAL_QUEUES:
        return None
    elif queue is None:
        text = (
            f"Queue {row.queue_name!r} is not registered, so that no process serves it; declare it "
            "with Engine(queues=[...])."
        )
    elif None not in (queue.application_name, row.application_name) and (
        queue.application_name != row.application_name
    ):
        text = (
            f"Queue {row.queue_name!r} belongs to application {queue.application_name!r}, and the "
            f"workflow to {row.application_name!r}, so that no process takes it; enqueue it again "
            "into a queue of its own application."
        )
    else:
        return None
    return Explanation(Cause.QUEUE_UNKNOWN, text)


def _key_missing(c: Circumstances) -> Explanation | None:
    if c.queue is None or not c.queue.settings.partitioned or c.row.partition_key is not None:
        return None
    text = (
        f"It has no partition key and queue {c.queue.name!r} is partitioned, so that it is never "
        "taken; cancel it and enqueue it again with a partition_key."
    )
    return Explanation(Cause.PARTITION_KEY_MISSING, text)


def _paused(c: Circumstances) -> Explanation | None:
    if c.queue is None or c.queue.paused_at_ms is None:
        return None
    text = (
        f"Queue {c.queue.name!r} is paused since {when(c.queue.paused_at_ms, c.now_ms)}; "
        f"`perdure queue resume {quote(c.queue.name)}` lets it go on."
    )
    return Explanation(Cause.QUEUE_PAUSED, text)


def _no_process(c: Circumstances) -> Explanation | None:
    if c.processes:
        return None
    return Explanation(Cause.NO_PROCESS, f"No process of {_application(c)} is alive: start one.")


def _queue_not_served(c: Circumstances) -> Explanation | None:
    if serving(c):
        return None
    heard = sorted({name for each in known(c.processes) for name in each.queues or ()})
    text = (
        f"No living process serves queue {c.row.queue_name!r}: {_named(c.processes)} "
        f"{'serves' if len(c.processes) == 1 else 'serve'} {_listed(heard) or 'none'}; start one "
        "that does, or add it to Engine(listen=[...])."
    )
    return Explanation(Cause.QUEUE_NOT_SERVED, text)


def _version_not_served(c: Circumstances) -> Explanation | None:
    if of_version(c):
        return None
    alive = _listed(sorted({each.version for each in known(serving(c))}))
    version, latest = c.row.application_version, c.latest_version
    if version is not None:
        text = (
            f"No living process that serves queue {c.row.queue_name!r} has its version {version!r} "
            f"(alive: {alive}); start one with Engine(version={version!r})."
        )
    else:
        text = (
            "It names no version, so that the latest registered one runs it, and no living process "
            f"that serves queue {c.row.queue_name!r} has that (latest: {latest or 'none'}; "
            f"alive: {alive}); start one of it."
        )
    return Explanation(Cause.VERSION_NOT_SERVED, text)


def _function_not_served(c: Circumstances) -> Explanation | None:
    if able(c):
        return None
    text = (
        f"No living process of its version that serves queue {c.row.queue_name!r} "
        f"({_named(of_version(c))}) has the function {str(c.row.key)!r}; start one that has, or "
        "give it to Engine(workflows=[...])."
    )
    return Explanation(Cause.FUNCTION_NOT_SERVED, text)


def _concurrency_reached(c: Circumstances) -> Explanation | None:
    limit = _limits(c).concurrency
    if limit is None or c.usage.pending < limit:
        return None
    text = (
        f"Queue {c.row.queue_name!r} runs as many as its global_concurrency allows: "
        f"{c.usage.pending:,} of {limit:,}, {_shares(c.running)}{_and_ahead(c)}."
    )
    return Explanation(Cause.GLOBAL_CONCURRENCY, text, holders=c.running)


def _rate_reached(c: Circumstances) -> Explanation | None:
    whole = f"Queue {c.row.queue_name!r}"
    return _rate_used(c, Cause.RATE_LIMIT, whole, _limits(c).rate, c.usage)


def _partition_concurrency_reached(c: Circumstances) -> Explanation | None:
    limit = _limits(c).partition_concurrency
    if limit is None or c.partition_usage.pending < limit:
        return None
    text = (
        f"{_partition(c)} runs as many as its partition_concurrency allows: "
        f"{c.partition_usage.pending:,} of {limit:,}, {_shares(c.partition_running)}."
    )
    return Explanation(Cause.PARTITION_CONCURRENCY, text, holders=c.partition_running)


def _partition_rate_reached(c: Circumstances) -> Explanation | None:
    rate, usage = _limits(c).partition_rate, c.partition_usage
    return _rate_used(c, Cause.PARTITION_RATE_LIMIT, _partition(c), rate, usage)


def _rate_used(
    c: Circumstances, cause: Cause, subject: str, rate: Rate | None, usage: Usage
) -> Explanation | None:
    if rate is None or usage.claims < rate.limit:
        return None
    until_ms = usage.frees_at_ms
    frees = "soon" if until_ms is None else f"at {when(until_ms, c.now_ms)}"
    text = (
        f"{subject} has started {usage.claims:,} within {rate.period_s:g} s, and its {cause.value} "
        f"allows {rate.limit:,}; there is room again {frees}{_and_ahead(c)}."
    )
    return Explanation(cause, text, until_ms)


def _workers_full(c: Circumstances) -> Explanation | None:
    limit = _limits(c).worker
    whole = f"queue {c.row.queue_name!r}"
    return _all_full(c, Cause.WORKER_CONCURRENCY, whole, limit, c.running)


def _partition_workers_full(c: Circumstances) -> Explanation | None:
    limit, running = _limits(c).partition_worker, c.partition_running
    return _all_full(c, Cause.PARTITION_WORKER_CONCURRENCY, _partition(c), limit, running)


def _all_full(
    c: Circumstances, cause: Cause, where: str, limit: int | None, running: tuple[Share, ...]
) -> Explanation | None:
    if limit is None:
        return None
    counts = dict(running)
    holders = tuple((each.executor_id, counts.get(each.executor_id, 0)) for each in able(c))
    if any(count < limit for _, count in holders):
        return None
    text = (
        f"Every living process that could run it is at its {cause.value} of {limit:,} in "
        f"{where[0].lower()}{where[1:]}: {_shares(holders)}{_and_ahead(c)}."
    )
    return Explanation(cause, text, holders=holders)


def _behind_others(c: Circumstances) -> Explanation | None:
    if c.ahead < 1:
        return None
    running = sum(count for _, count in c.running)
    text = (
        f"{_ahead(c)} before it in queue {c.row.queue_name!r}, where {running:,} "
        f"{'runs' if running == 1 else 'run'} now."
    )
    return Explanation(Cause.BEHIND_OTHERS, text, holders=c.running)


def _about_to_start(c: Circumstances) -> Explanation:
    text = (
        "Nothing holds it back: it is about to start. If it does not, look into the logs of what "
        f"can run it: {_named(able(c))}."
    )
    return Explanation(Cause.ABOUT_TO_START, text)


_CHECKS: tuple[Callable[[Circumstances], Explanation | None], ...] = (
    _ended,
    _overdue,
    _running,
    _owner_dead,
    _owner_foreign,
    _delayed,
    _queue_unknown,
    _key_missing,
    _paused,
    _no_process,
    _queue_not_served,
    _version_not_served,
    _function_not_served,
    _concurrency_reached,
    _rate_reached,
    _partition_concurrency_reached,
    _partition_rate_reached,
    _workers_full,
    _partition_workers_full,
    _behind_others,
)


def _owner(c: Circumstances) -> str | None:
    """Who has a PENDING row, '' if nobody; None for any other row."""
    return (c.row.executor_id or "") if c.row.state is WorkflowState.PENDING else None


def _limits(c: Circumstances) -> QueueLimits:
    return QueueLimits() if c.queue is None else c.queue.settings.limits


def _application(c: Circumstances) -> str:
    name = c.row.application_name
    return "this application" if name is None else f"application {name!r}"


def _since(c: Circumstances) -> str:
    return when(c.row.started_at_ms or c.row.created_at_ms, c.now_ms)


def _partition(c: Circumstances) -> str:
    return f"Partition {c.row.partition_key!r} of queue {c.row.queue_name!r}"


def _named(processes: Iterable[ProcessSeen]) -> str:
    return _listed([each.executor_id for each in processes])


def _shares(shares: Iterable[Share]) -> str:
    return _listed([f"{count:,} on {executor}" for executor, count in shares]) or "nowhere"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - NAMED
    shown = ", ".join(texts[:NAMED])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _ahead(c: Circumstances) -> str:
    number = f"{c.ahead:,} or more" if c.ahead >= AHEAD_COUNTED else f"{c.ahead:,}"
    one = c.ahead == 1
    return f"{number} {'workflow comes' if one else 'workflows come'}"


def _and_ahead(c: Circumstances) -> str:
    """The rest of a sentence about a limit: who comes first when there is room."""
    return f"; {_ahead(c)} before it" if c.ahead else ""
