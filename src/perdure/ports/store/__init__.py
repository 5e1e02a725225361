"""The store's port, split by concern; `Store` is all of them together.

Every method raises only `perdure.errors.DatabaseError` kinds for trouble with the database:
`DatabaseUnavailable` and `DatabaseConflict` may be retried with the same arguments (every
method is safe to repeat after an unknown outcome), `DatabaseRejected` may not. Retrying is the
engine's business, never a store's. Every statement has a deadline.
"""

from typing import Protocol

from perdure.ports.store.claims import ClaimStore
from perdure.ports.store.events import EventStore
from perdure.ports.store.hints import HintStore
from perdure.ports.store.leases import LeaseStore
from perdure.ports.store.lifecycle import StoreLifecycle
from perdure.ports.store.messages import MessageStore
from perdure.ports.store.queues import QueueStore
from perdure.ports.store.reads import ReadStore
from perdure.ports.store.runs import RunStore
from perdure.ports.store.steps import StepStore
from perdure.ports.store.streams import StreamStore
from perdure.ports.store.upkeep import UpkeepStore
from perdure.ports.store.versions import VersionStore


class Store(
    StoreLifecycle,
    RunStore,
    ClaimStore,
    QueueStore,
    StepStore,
    MessageStore,
    EventStore,
    StreamStore,
    LeaseStore,
    HintStore,
    ReadStore,
    VersionStore,
    UpkeepStore,
    Protocol,
):
    """A system database as the engine sees it."""


__all__ = [
    "ClaimStore",
    "EventStore",
    "HintStore",
    "LeaseStore",
    "MessageStore",
    "QueueStore",
    "ReadStore",
    "RunStore",
    "StepStore",
    "Store",
    "StoreLifecycle",
    "StreamStore",
    "UpkeepStore",
    "VersionStore",
]
