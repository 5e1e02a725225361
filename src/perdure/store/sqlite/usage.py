"""What uses the limits of a queue up: PENDING rows, and the claims in a rate's window."""

import math
from collections.abc import Callable, Mapping, Sequence
from sqlite3 import Row
from typing import Any

from perdure.model.queue import QueueLimits, Rate, Usage
from perdure.store.sqlite.concern import packed
from perdure.store.sqlite.instants import LATEST_MS, later

Read = Callable[[str, dict[str, Any]], list[Row]]
"""Executes one statement, in a transaction or outside of one."""


class Usages:
    """Reads how much of a queue's limits is used, by rows of an application or of none."""

    def __init__(
        self, read: Read, queries: Mapping[str, str], application: str | None, now_ms: int
    ) -> None:
        self._read = read
        self._queries = queries
        self._application = application
        self._now_ms = now_ms

    def of_queue(self, name: str, limits: QueueLimits) -> Usage:
        """What uses up the limits of the whole queue; what has no limit is not counted."""
        pending = 0
        if limits.concurrency is not None:
            ((pending,),) = self._found("pending_of_queue", name)
        if limits.rate is None:
            return Usage(pending)
        (window,) = self._found("claims_of_queue", name, **self._window(limits.rate))
        return _usage(pending, limits.rate, window)

    def of_partitions(
        self, name: str, limits: QueueLimits, keys: Sequence[str]
    ) -> dict[str, Usage]:
        """The same for the limits of each of these partitions."""
        partitions = packed(keys)
        pending: dict[str, int] = {}
        if limits.partition_concurrency is not None:
            found = self._found("pending_of_partitions", name, partitions=partitions)
            pending = {row["partition_key"]: row["pending"] for row in found}
        rate = limits.partition_rate
        if rate is None:
            return {key: Usage(pending.get(key, 0)) for key in keys}
        found = self._found(
            "claims_of_partitions", name, partitions=partitions, **self._window(rate)
        )
        windows = {row["partition_key"]: row for row in found}
        return {key: _usage(pending.get(key, 0), rate, windows.get(key)) for key in keys}

    def _found(self, query: str, queue_name: str, **asked: Any) -> list[Row]:
        parameters = {"application": self._application, "queue": queue_name, **asked}
        return self._read(self._queries[query], parameters)

    def _window(self, rate: Rate) -> dict[str, int]:
        return {"after": self._now_ms - period_ms(rate), "most": rate.limit}


def period_ms(rate: Rate) -> int:
    """A rate's period, rounded up: never more claims than it allows.

    Other programs check no bounds.
    """
    return math.ceil(max(min(rate.period_s * 1000, LATEST_MS // 4), 0))


def _usage(pending: int, rate: Rate, window: Row | None) -> Usage:
    if window is None:
        return Usage(pending)
    claims = window["claims"]
    # A limit below one, which another program may have set, never leaves room.
    is_full = 0 < rate.limit <= claims
    frees_at_ms = later(window["first_at"], period_ms(rate)) if is_full else None
    return Usage(pending, claims, frees_at_ms)
