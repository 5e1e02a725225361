"""Durable workflows and durable queues, embedded in your process, on Postgres or SQLite."""

from perdure.api.call_options import IdPolicy
from perdure.api.chance import now, random, uuid4
from perdure.api.client import Client
from perdure.api.concurrency import Selected, gather, map, select, timeout  # noqa: A004 - the field's name
from perdure.api.engine import Engine
from perdure.api.enqueue import Submission
from perdure.api.events import get_event, get_events, set_event
from perdure.api.handle import WorkflowHandle
from perdure.api.joining import join, select_workflow
from perdure.api.logs import ContextFilter
from perdure.api.management import workflows
from perdure.api.messaging import Message, recv, send, send_bulk
from perdure.api.pages import Page
from perdure.api.patching import deprecate_patch, patch
from perdure.api.placement import Debounce, DedupPolicy
from perdure.api.queue import Queue, RateLimit
from perdure.api.step import run_step, step
from perdure.api.streams import close_stream, read_stream, write_stream
from perdure.api.timers import sleep
from perdure.api.workflow import workflow
from perdure.config import Retention
from perdure.engine.context import CancellationToken, current
from perdure.errors import (
    AwaitedWorkflowCancelled,
    ConfigurationError,
    ControlSignal,
    DatabaseError,
    InvalidArgument,
    ListingTooSlow,
    NoForkPoint,
    NotAuthorized,
    PerdureError,
    QueueDeduplicated,
    RecoveryLimitExceeded,
    RemoteError,
    SerializationError,
    StepRetriesExhausted,
    StepTimeout,
    StreamTimeout,
    UnexpectedStep,
    UnknownDestination,
    UnknownQueue,
    UnknownVersion,
    UsageError,
    WorkflowBusy,
    WorkflowCancelled,
    WorkflowError,
    WorkflowNotEnded,
    WorkflowNotFound,
)
from perdure.logic.explaining import Cause, Explanation
from perdure.logic.queues import OnConflict
from perdure.model.listing import StepCount, WorkflowCount
from perdure.model.management import LastStep
from perdure.model.queue import QueueDepth, QueueRow
from perdure.model.status import WorkflowState
from perdure.model.workflow import StepRow, WorkflowRow
from perdure.serialization import Serializer

__all__ = [
    "AwaitedWorkflowCancelled",
    "CancellationToken",
    "Cause",
    "Client",
    "ConfigurationError",
    "ContextFilter",
    "ControlSignal",
    "DatabaseError",
    "Debounce",
    "DedupPolicy",
    "Engine",
    "Explanation",
    "IdPolicy",
    "InvalidArgument",
    "LastStep",
    "ListingTooSlow",
    "Message",
    "NoForkPoint",
    "NotAuthorized",
    "OnConflict",
    "Page",
    "PerdureError",
    "Queue",
    "QueueDeduplicated",
    "QueueDepth",
    "QueueRow",
    "RateLimit",
    "RecoveryLimitExceeded",
    "RemoteError",
    "Retention",
    "Selected",
    "SerializationError",
    "Serializer",
    "StepCount",
    "StepRetriesExhausted",
    "StepRow",
    "StepTimeout",
    "StreamTimeout",
    "Submission",
    "UnexpectedStep",
    "UnknownDestination",
    "UnknownQueue",
    "UnknownVersion",
    "UsageError",
    "WorkflowBusy",
    "WorkflowCancelled",
    "WorkflowCount",
    "WorkflowError",
    "WorkflowHandle",
    "WorkflowNotEnded",
    "WorkflowNotFound",
    "WorkflowRow",
    "WorkflowState",
    "close_stream",
    "current",
    "deprecate_patch",
    "gather",
    "get_event",
    "get_events",
    "join",
    "map",
    "now",
    "patch",
    "random",
    "read_stream",
    "recv",
    "run_step",
    "select",
    "select_workflow",
    "send",
    "send_bulk",
    "set_event",
    "sleep",
    "step",
    "timeout",
    "uuid4",
    "workflow",
    "workflows",
    "write_stream",
]
