"""Every exception the library raises.

PerdureError
├── ConfigurationError            a setting or decorator argument that cannot work
│   ├── RegistrationError         two functions under one name, or a function that cannot be one
│   ├── VersionOwnedByAnother     the version name belongs to another application
│   └── QueueOwnedByAnother       the queue name belongs to another application
├── UsageError                    a call in a place or form where it cannot work
│   ├── NotRunning                no engine runs here for this call
│   ├── AmbiguousEngine           several running engines registered the function
│   ├── NotRegistered             the engine does not know the function
│   ├── WrongPlace                not possible here (inside a step, in another loop, …)
│   ├── BuiltElsewhere            a call built in one place and awaited in another
│   ├── UnscopedTask              a durable call in a task that no scope started
│   ├── CallSpent                 a durable call awaited twice
│   ├── UnknownQueue              no queue of that name is registered
│   ├── NotAuthorized             nobody with a role that the workflow requires
│   ├── UnknownVersion            no version of that name is registered for the application
│   ├── ApplicationRunning        processes of the application to be renamed live
│   └── InvalidArgument           an argument out of its range
│       └── InvalidDocument       no exported workflow, or one that was damaged
├── SerializationError            a value that cannot be stored, or text that cannot be read
│   ├── UnserializableValue
│   ├── ValueTooLarge
│   └── UndecodableValue
│       └── FormatUnavailable     the text's format is not enabled in this process
├── WorkflowError                 about one workflow
│   ├── WorkflowNotFound
│   ├── WorkflowIdInUse           id_policy=REJECT and the id exists
│   ├── ConflictingWorkflow       the id belongs to another function
│   ├── QueueDeduplicated         another live workflow holds the deduplication id
│   ├── UnknownDestination        a message to a workflow that does not exist
│   ├── WorkflowBusy              a workflow that would remove itself
│   ├── WorkflowNotEnded          only what has ended can be rewound
│   ├── NoForkPoint               the step to go on from was not recorded
│   ├── MessageIdInUse            an imported message whose id another one has
│   ├── StreamTimeout             no value came to a stream in time
│   ├── AwaitedWorkflowCancelled  the workflow waited for was cancelled
│   ├── RecoveryLimitExceeded     the workflow waited for is dead-lettered
│   ├── WaitInterrupted           the engine stopped while the workflow was waited for
│   ├── UnexpectedStep            the code and the recorded history disagree
│   └── ForeignCancellation       a durable call was cancelled by something not durable
├── StepError
│   ├── StepTimeout               an attempt ran past its timeout
│   └── StepRetriesExhausted      every allowed attempt failed
├── RemoteError                   an error recorded elsewhere whose class is not known here
└── DatabaseError                 trouble with the system database; never a workflow's outcome
    ├── DatabaseUnavailable       no connection, server going down
    │   └── StatementTimeout      a statement ran out of its time
    ├── DatabaseConflict          serialization failure, deadlock, lock not available
    ├── DatabaseRejected          the statement or a value was refused for good
    ├── ListingTooSlow            a listing or count has to be narrowed
    ├── LeaseLost                 this process start was taken for dead
    └── SchemaError
        ├── SchemaMissing
        └── SchemaTooOld

ControlSignal (BaseException)     never an outcome; raised through a body to stop it
├── WorkflowCancelled             this run was cancelled
├── RunLost                       another execution owns the run now
└── RunInterrupted                the engine is stopping; the run goes on elsewhere or later
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class PerdureError(Exception):
    """Base of every error the library raises."""


class ConfigurationError(PerdureError):
    """A setting or a decorator's argument cannot work; the message names it and the remedy."""


class RegistrationError(ConfigurationError):
    """A function cannot be registered, or two want one name."""


class VersionOwnedByAnother(ConfigurationError):
    """The version name is registered by another application on this database."""

    def __init__(self, version: str, holder: str) -> None:
        super().__init__(
            f"version {version!r} is registered by application {holder!r} on this database; "
            "version names are global: choose another with Engine(version=...), or name that "
            "application where its version is meant"
        )
        self.version = version
        self.holder = holder


class QueueOwnedByAnother(ConfigurationError):
    """The queue is registered by another application on this database."""

    def __init__(self, queue: str, holder: str) -> None:
        super().__init__(
            f"queue {queue!r} is registered by application {holder!r} on this database; queue "
            "names are global: choose another"
        )
        self.queue = queue
        self.holder = holder


class UsageError(PerdureError):
    """A call in a place, or with arguments, with which it cannot work. Nothing was written."""


class NotRunning(UsageError):
    """The call needs a running engine and there is none."""


class AmbiguousEngine(UsageError):
    """Several running engines registered the function; say which with `options(engine=...)`."""


class NotRegistered(UsageError):
    """The engine does not know the function."""


class WrongPlace(UsageError):
    """The operation has no meaning where it was called."""


class BuiltElsewhere(UsageError):
    """A durable call was built in one place and awaited in another."""


class UnscopedTask(UsageError):
    """A durable call was built in a task that no durable scope started."""


class CallSpent(UsageError):
    """A durable call was awaited a second time."""


class UnknownQueue(UsageError):
    """No queue of that name is registered for this application."""

    def __init__(self, queue: str, known: Sequence[str]) -> None:
        registered = ", ".join(known) if known else "none"
        super().__init__(
            f"no queue {queue!r} is registered (registered: {registered}); declare it with "
            "Engine(queues=[...]) or register it with engine.queues.register(...). "
            "allow_unknown_queue=True enqueues for a process that registers it later"
        )
        self.queue = queue


class UnknownVersion(UsageError):
    """No version of that name is registered for the application: nobody runs workflows of it."""

    def __init__(self, version: str, application: str | None) -> None:
        owner = (
            "no application has a" if application is None else f"application {application!r} has no"
        )
        super().__init__(
            f"{owner} version {version!r} on this database, so that "
            "nobody would run a workflow of it; a version is registered when an engine of it "
            "starts. allow_unknown_version=True enqueues for an engine that starts later"
        )
        self.version = version
        self.application = application


class ApplicationRunning(UsageError):
    """Processes of the application live, and would go on under the name that it is to lose."""

    def __init__(self, application: str, executors: Sequence[str]) -> None:
        named = ", ".join(executors)
        super().__init__(
            f"application {application!r} is running ({named}): stop its processes first. One that "
            "died counts as running until its lease has run out"
        )
        self.application = application
        self.executors = list(executors)


class NotAuthorized(UsageError):
    """The workflow requires a role that whoever it would run for does not have."""

    def __init__(self, workflow: str, required: Sequence[str], user: str | None) -> None:
        who = "nobody is named" if user is None else f"{user!r} has none of them"
        super().__init__(
            f"workflow {workflow!r} requires one of the roles {', '.join(map(repr, required))}, "
            f"and {who}; start it with options(authenticated_user=..., authenticated_roles=[...])"
        )
        self.workflow = workflow
        self.required = list(required)
        self.user = user


class InvalidArgument(UsageError):
    """An argument is out of its range."""


class InvalidDocument(InvalidArgument):
    """A document is no workflow that can be imported; `path` leads from `$`, the list, to why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot import {path}: {reason}")
        self.path = path
        self.reason = reason


class SerializationError(PerdureError):
    """A value cannot be stored, or a stored text cannot be read as what is wanted."""


class UnserializableValue(SerializationError):
    """The value has no lossless stored form; `path` leads to the offending part."""

    def __init__(self, what: str, path: str, reason: str) -> None:
        super().__init__(f"{what}: cannot store {path}: {reason}")
        self.what = what
        self.path = path
        self.reason = reason


class ValueTooLarge(SerializationError):
    """The encoded value is longer than the engine's limit: of `size` bytes or more."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what}: at least {size:,} bytes when encoded, more than the limit of {limit:,}; "
            "store large data elsewhere and pass a reference, or raise Engine(max_value_bytes=...)"
        )
        self.what = what
        self.size = size
        self.limit = limit


class UndecodableValue(SerializationError):
    """A stored text is not what its label or the annotation says."""

    def __init__(self, what: str, serialization: str | None, reason: str) -> None:
        super().__init__(f"{what}: cannot read a value stored as {serialization!r}: {reason}")
        self.what = what
        self.serialization = serialization
        self.reason = reason


class FormatUnavailable(UndecodableValue):
    """The stored text has a format this process does not read; another process may."""


class WorkflowError(PerdureError):
    """Something about one workflow, named by `workflow_id`."""

    def __init__(self, workflow_id: str, message: str) -> None:
        super().__init__(message)
        self.workflow_id = workflow_id


class WorkflowNotFound(WorkflowError):
    """No workflow has this id."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(workflow_id, f"no workflow has the id {workflow_id!r}")


class WorkflowIdInUse(WorkflowError):
    """The id exists and the start asked for `id_policy=REJECT`."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(workflow_id, f"a workflow with the id {workflow_id!r} exists already")


class ConflictingWorkflow(WorkflowError):
    """The id belongs to a workflow of another function."""

    def __init__(self, workflow_id: str, wanted: str, recorded: str) -> None:
        super().__init__(
            workflow_id,
            f"workflow {workflow_id!r} was started as {recorded!r}, not as {wanted!r}; an id names "
            "one workflow in the whole database: choose another id",
        )
        self.wanted = wanted
        self.recorded = recorded


class QueueDeduplicated(WorkflowError):
    """Another live workflow holds the deduplication id on this queue."""

    def __init__(self, workflow_id: str, queue: str, dedup_id: str, holder: str | None) -> None:
        super().__init__(
            workflow_id,
            f"queue {queue!r}: deduplication id {dedup_id!r} is held by workflow {holder!r} until "
            "that ends",
        )
        self.queue = queue
        self.dedup_id = dedup_id
        self.holder = holder


class UnknownDestination(WorkflowError):
    """A message names a workflow that does not exist; nothing of what was sent with it was sent."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(
            workflow_id, f"no workflow has the id {workflow_id!r}, so that nothing was sent"
        )


class MessageIdInUse(WorkflowError):
    """A workflow cannot be imported: another one has a message of the same id."""

    def __init__(self, workflow_id: str, message_id: str) -> None:
        super().__init__(
            workflow_id,
            f"workflow {workflow_id!r} cannot be imported with its message {message_id!r}: another "
            "workflow has one of that id",
        )
        self.message_id = message_id


class WorkflowBusy(WorkflowError):
    """A workflow asked to remove itself, or a tree that it is part of."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(
            workflow_id,
            f"workflow {workflow_id!r} is the one that asks, or stands above it: it cannot remove "
            "itself; remove it from another workflow, or from outside",
        )


class WorkflowNotEnded(WorkflowError):
    """Only an ended workflow can be rewound; `state` is the one it is in."""

    def __init__(self, workflow_id: str, state: str) -> None:
        super().__init__(
            workflow_id,
            f"workflow {workflow_id!r} is {state}: only one that has ended can be rewound; cancel "
            "it first",
        )
        self.state = state


class NoForkPoint(WorkflowError):
    """The step from which a workflow was to go on is not among those it recorded."""

    def __init__(self, workflow_id: str, point: str) -> None:
        super().__init__(
            workflow_id,
            f"workflow {workflow_id!r} has recorded no {point}, from which to go on; "
            f"`perdure workflow steps {workflow_id}` lists what it recorded",
        )
        self.point = point


class StreamTimeout(WorkflowError):
    """No value came to a stream within the reader's timeout, in seconds."""

    def __init__(self, workflow_id: str, key: str, timeout: float) -> None:
        super().__init__(
            workflow_id,
            f"stream {key!r} of workflow {workflow_id!r}: no value came within {timeout:g} s",
        )
        self.key = key
        self.timeout = timeout


class AwaitedWorkflowCancelled(WorkflowError):
    """The workflow that was waited for was cancelled."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(workflow_id, f"workflow {workflow_id!r} was cancelled")


class RecoveryLimitExceeded(WorkflowError):
    """The workflow that was waited for is dead-lettered: its process died too often."""

    def __init__(self, workflow_id: str, attempts: int) -> None:
        super().__init__(
            workflow_id,
            f"workflow {workflow_id!r} was set aside after {attempts} attempts without an outcome; "
            "find out what ends its process, then resume it",
        )
        self.attempts = attempts


class WaitInterrupted(WorkflowError):
    """The engine stopped, or gave the run back, before the workflow had an outcome."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(
            workflow_id,
            f"workflow {workflow_id!r} has no outcome yet: the engine that ran or watched it is "
            "stopping; it goes on in another process, or when an engine starts again",
        )


class UnexpectedStep(WorkflowError):
    """The code and the recorded history disagree at one step id."""

    def __init__(self, workflow_id: str, step_id: int, message: str) -> None:
        super().__init__(workflow_id, message)
        self.step_id = step_id


class ForeignCancellation(WorkflowError):
    """A durable call was cancelled by something whose decision is not recorded."""


class StepError(PerdureError):
    """A step failed in a way the library decided; `step` is its name."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


class StepTimeout(StepError):
    """One attempt of a step ran longer than its timeout, in seconds."""

    def __init__(self, step: str, timeout: float) -> None:
        super().__init__(step, f"step {step!r}: an attempt ran longer than {timeout:g} s")
        self.timeout = timeout


class StepRetriesExhausted(StepError):
    """Every allowed attempt of a step failed; `errors` holds each attempt's error, oldest first."""

    def __init__(self, step: str, attempts: int, errors: Sequence[BaseException]) -> None:
        last = errors[-1] if errors else None
        described = f"; the last one with {type(last).__name__}: {last}" if last else ""
        super().__init__(step, f"step {step!r} failed {attempts} times{described}")
        self.attempts = attempts
        self.errors = tuple(errors)


class RemoteError(PerdureError):
    """A recorded error whose class is not known in this process.

    `name` is the class name it was recorded under, `code` and `data` what its writer attached,
    `traceback_text` the traceback where it was raised, if recorded.
    """

    def __init__(
        self,
        name: str,
        message: str,
        code: int | str | None = None,
        data: Any = None,
        traceback_text: str | None = None,
    ) -> None:
        super().__init__(f"{name}: {message}" if message else name)
        self.name = name
        self.message = message
        self.code = code
        self.data = data
        self.traceback_text = traceback_text


class DatabaseError(PerdureError):
    """Trouble with the system database. Never recorded as a workflow's outcome."""


class DatabaseUnavailable(DatabaseError):
    """No connection, or a server going down; retried."""


class StatementTimeout(DatabaseUnavailable):
    """A statement ran out of its time; what it waited for may be free the next time."""


class DatabaseConflict(DatabaseError):
    """The database rolled back because of concurrent work; retried."""


class DatabaseRejected(DatabaseError):
    """The database refused a statement or a value for good; retrying cannot help."""


class ListingTooSlow(DatabaseError):
    """A listing or a count went through more rows than the time for a statement allows."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"the workflows were not found within {limit_s:g} s; add a condition that an index "
            "serves: created_from and created_to (or started_, completed_), ids, parents, "
            "forked_from, schedules, dedup_ids, or states other than SUCCESS"
        )
        self.limit_s = limit_s


class LeaseLost(DatabaseError):
    """This process start was taken for dead; its runs continue elsewhere."""


class SchemaError(DatabaseError):
    """The database's schema is not one we can run on."""


class SchemaMissing(SchemaError):
    """There is no system schema in the database."""


class SchemaTooOld(SchemaError):
    """The system schema is older than the versions we converge."""


class ControlSignal(BaseException):
    """Stops a body without being its outcome. Never catch it without raising it again."""

    def __init__(self, workflow_id: str, message: str) -> None:
        super().__init__(message)
        self.workflow_id = workflow_id


class WorkflowCancelled(ControlSignal):
    """This run was cancelled, or ran past its deadline."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(workflow_id, f"workflow {workflow_id!r} was cancelled")


class RunLost(ControlSignal):
    """Another execution owns the run now; this one can record nothing more."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(workflow_id, f"workflow {workflow_id!r} goes on in another execution")


class RunInterrupted(ControlSignal):
    """The engine is stopping; the run goes on at its next start or in another process."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(workflow_id, f"workflow {workflow_id!r} was interrupted by a shutdown")
