"""All that decides when a workflow runs."""

import msgspec

from perdure.model.lease import ProcessSeen
from perdure.model.queue import QueueRow, Usage
from perdure.model.workflow import WorkflowRow

Share = tuple[str, int]
"""An executor and how many it has."""


class Circumstances(msgspec.Struct, frozen=True):
    """A workflow's row and what stands around it, at the instant `now_ms`.

    `queue` is the registered queue it is in, if there is one. `running` and `usage` are those of
    the whole queue, `partition_running` and `partition_usage` those of its partition.
    `latest_version` is the latest registered one.
    """

    now_ms: int
    row: WorkflowRow
    queue: QueueRow | None
    running: tuple[Share, ...]
    usage: Usage
    partition_running: tuple[Share, ...]
    partition_usage: Usage
    ahead: int
    processes: tuple[ProcessSeen, ...]
    latest_version: str | None
