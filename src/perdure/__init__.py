"""Durable workflows and durable queues, embedded in your process, on Postgres or SQLite."""

from perdure.api.client import Client
from perdure.api.concurrency import gather
from perdure.api.engine import Engine
from perdure.api.handle import WorkflowHandle
from perdure.api.logs import ContextFilter
from perdure.api.step import run_step, step
from perdure.api.timers import sleep
from perdure.api.workflow import IdPolicy, workflow
from perdure.engine.context import CancellationToken, current
from perdure.errors import (
    AwaitedWorkflowCancelled,
    ConfigurationError,
    ControlSignal,
    DatabaseError,
    PerdureError,
    RecoveryLimitExceeded,
    RemoteError,
    SerializationError,
    StepRetriesExhausted,
    StepTimeout,
    UnexpectedStep,
    UsageError,
    WorkflowCancelled,
    WorkflowError,
    WorkflowNotFound,
)
from perdure.model.status import WorkflowState
from perdure.model.workflow import StepRow, WorkflowRow

__all__ = [
    "AwaitedWorkflowCancelled",
    "CancellationToken",
    "Client",
    "ConfigurationError",
    "ContextFilter",
    "ControlSignal",
    "DatabaseError",
    "Engine",
    "IdPolicy",
    "PerdureError",
    "RecoveryLimitExceeded",
    "RemoteError",
    "SerializationError",
    "StepRetriesExhausted",
    "StepRow",
    "StepTimeout",
    "UnexpectedStep",
    "UsageError",
    "WorkflowCancelled",
    "WorkflowError",
    "WorkflowHandle",
    "WorkflowNotFound",
    "WorkflowRow",
    "WorkflowState",
    "current",
    "gather",
    "run_step",
    "sleep",
    "step",
    "workflow",
]
