"""The store's port, split by concern; `Store` is all of them together.

Every method raises only `perdure.errors.DatabaseError` kinds for trouble with the database:
`DatabaseUnavailable` and `DatabaseConflict` may be retried with the same arguments (every
method is safe to repeat after an unknown outcome), `DatabaseRejected` may not. Retrying is the
engine's business, never a store's. Every statement has a deadline.
"""

from typing import Protocol

from perdure.ports.store.applications import ApplicationStore
from perdure.ports.store.claims import ClaimStore
from perdure.ports.store.events import EventStore
from perdure.ports.store.hints import HintStore
from perdure.ports.store.leases import LeaseStore
from perdure.ports.store.lifecycle import StoreLifecycle
from perdure.ports.store.listing import ListingStore
from perdure.ports.store.management import ManagementStore
from perdure.ports.store.messages import MessageStore
from perdure.ports.store.queues import QueueStore
from perdure.ports.store.reads import ReadStore
from perdure.ports.store.retention import RetentionStore
from perdure.ports.store.runs import RunStore
from perdure.ports.store.steps import StepStore
from perdure.ports.store.streams import StreamStore
from perdure.ports.store.transfer import TransferStore
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
    ListingStore,
    ManagementStore,
    TransferStore,
    RetentionStore,
    VersionStore,
    ApplicationStore,
    UpkeepStore,
    Protocol,
):
    """A system database as the engine sees it."""


__all__ = [
    "ApplicationStore",
    "ClaimStore",
    "EventStore",
    "HintStore",
    "LeaseStore",
    "ListingStore",
    "ManagementStore",
    "MessageStore",
    "QueueStore",
    "ReadStore",
    "RetentionStore",
    "RunStore",
    "StepStore",
    "Store",
    "StoreLifecycle",
    "StreamStore",
    "TransferStore",
    "UpkeepStore",
    "VersionStore",
]
