"""Which living processes could run a workflow: by its queue, its version, its function.

A process that does not say what it serves may serve anything.
"""

from collections.abc import Iterable

from perdure.model.circumstances import Circumstances
from perdure.model.lease import ProcessSeen, Serves
from perdure.model.wire import INTERNAL_QUEUES


def known(processes: Iterable[ProcessSeen]) -> list[Serves]:
    """What those that say so serve."""
    return [each.serves for each in processes if each.serves is not None]


def serving(c: Circumstances) -> list[ProcessSeen]:
    """The processes that serve the queue; one that does not say what it serves may."""
    name = c.row.queue_name
    return [
        each
        for each in c.processes
        if each.serves is None
        or each.serves.queues is None
        or name in each.serves.queues
        or name in INTERNAL_QUEUES
    ]


def of_version(c: Circumstances) -> list[ProcessSeen]:
    """Those of them whose version is the workflow's."""
    wanted = c.row.application_version or c.latest_version
    return [each for each in serving(c) if each.serves is None or each.serves.version == wanted]


def able(c: Circumstances) -> list[ProcessSeen]:
    """Those of them that have its function."""
    function = str(c.row.key)
    return [
        each for each in of_version(c) if each.serves is None or function in each.serves.functions
    ]
