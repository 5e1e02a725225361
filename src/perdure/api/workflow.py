"""Workflows: decorate, start, run; children when called inside another."""

import functools
import inspect
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from perdure.api.handle import ResultCall, Target, WorkflowHandle
from perdure.api.options import refuse_unknown
from perdure.api.running import kernel_for
from perdure.api.step import checked_name, refuse_generator
from perdure.engine.context import PLACE, StepScope
from perdure.engine.journal import DurableCall, PendingCall, await_later, refused
from perdure.engine.kernel import Kernel
from perdure.engine.launcher import Launch, check_joinable, child_id
from perdure.engine.registry import DECORATED, MAX_RECOVERY_ATTEMPTS, WorkflowDefinition
from perdure.engine.run import Run
from perdure.errors import (
    ConfigurationError,
    ConflictingWorkflow,
    InvalidArgument,
    PerdureError,
    RegistrationError,
    WorkflowError,
    WorkflowIdInUse,
    WrongPlace,
)
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.model.answer import Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.status import WorkflowState
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import (
    Checkpoint,
    NewWorkflow,
    StandingWorkflow,
    StepRow,
    WorkflowFilter,
    WorkflowKey,
)

if TYPE_CHECKING:
    from perdure.api.engine import Engine

log = logging.getLogger("perdure")

P = ParamSpec("P")
R = TypeVar("R")


class Inherit(Enum):
    """Marks an option that was not given, where None has a meaning of its own."""

    INHERIT = "inherit"


INHERIT: Final = Inherit.INHERIT
"""The timeout of a child that is not given one: its parent's deadline."""


class IdPolicy(Enum):
    """What a start does when its id exists already."""

    JOIN = "join"
    """Join that workflow: the handle refers to it, this call's arguments are not used."""

    REJECT = "reject"
    """Raise `WorkflowIdInUse`."""


class WorkflowOptions(TypedDict, total=False):
    """Options of a workflow, given where it is decorated.

    `name` is what rows say instead of the function's qualified name. `max_recovery_attempts` is
    how often it is begun again after its process died, before it is set aside.
    """

    name: str
    max_recovery_attempts: int


class StartOptions(TypedDict, total=False):
    """Options of one call.

    `id` names the workflow and is its idempotency key. `timeout` (a duration from the start) or
    `deadline` (an aware datetime) bounds it, None makes it unbounded; a child not given one takes
    its parent's deadline. `attributes` is a JSON object kept with the row. `engine` chooses among
    several running engines. `id_policy` says what an existing id means.
    """

    id: str
    timeout: Duration | None
    deadline: datetime
    attributes: dict[str, Any]
    engine: "Engine"
    id_policy: IdPolicy


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of one call, checked as far as they can be by themselves."""

    workflow_id: WorkflowId | None = None
    timeout_ms: int | None = None
    deadline_ms: int | None = None
    inherits_deadline: bool = True
    attributes: dict[str, Any] | None = None
    engine: "Engine | None" = None
    id_policy: IdPolicy = IdPolicy.JOIN


class Workflow(Generic[P, R]):
    """A decorated workflow.

    `await wf(...)` runs it and waits; `await wf.options(...).start(...)` starts it and gives a
    handle. Inside another workflow both make a child. `fn` is the plain function.
    """

    def __init__(
        self, fn: Callable[P, Coroutine[Any, Any, R]], definition: WorkflowDefinition
    ) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.definition = definition

    @property
    def name(self) -> str:
        """The name its rows bear."""
        return self.definition.key.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "RunCall[R]":
        """Run it and wait for its result."""
        return RunCall(self.definition, _NO_OPTIONS, args, kwargs)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> "StartCall[R]":
        """Start it; awaiting the call gives its handle once its row is written."""
        return StartCall(self.definition, _NO_OPTIONS, args, kwargs)

    def options(self, **options: Unpack[StartOptions]) -> "BoundWorkflow[P, R]":
        """The same workflow with options for one call; raises `InvalidArgument` at once."""
        return BoundWorkflow(self, checked_options(options))


class BoundWorkflow(Generic[P, R]):
    """A workflow with the options of its next call."""

    def __init__(self, workflow: Workflow[P, R], options: CallOptions) -> None:
        self._workflow = workflow
        self._options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "RunCall[R]":
        """Run it and wait for its result."""
        return RunCall(self._workflow.definition, self._options, args, kwargs)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> "StartCall[R]":
        """Start it; awaiting the call gives its handle once its row is written."""
        return StartCall(self._workflow.definition, self._options, args, kwargs)


class StartCall(DurableCall[WorkflowHandle[R]]):
    """One start; in a workflow a step under the child's name, written with the child's row."""

    __slots__ = ("_codecs", "_definition", "_kernel", "_options", "_payload")

    def __init__(
        self,
        definition: WorkflowDefinition,
        options: CallOptions,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._definition = definition
        self._options = options
        refusal: PerdureError | None = None
        try:
            self._kernel = kernel = _kernel_of(definition, options)
            self._codecs = kernel.registry.codecs(kernel.registry.require(definition))
            self._payload = self._codecs.arguments.encode(args, kwargs)
            _attributes_text(kernel, options.attributes)
        except PerdureError as error:
            refusal = error
        super().__init__(definition.key.name, refusal)

    async def plain(self) -> WorkflowHandle[R]:
        """Start a workflow that has no parent."""
        kernel = self._kernel
        workflow_id = self._options.workflow_id or kernel.ids.workflow_id()
        await kernel.launcher.room()
        launch = self._launch(workflow_id, None)
        entry = kernel.launcher.submit(launch)
        return await self._handle_for(await entry.future, launch.row)

    async def perform(self, run: Run) -> WorkflowHandle[R]:
        """Write the child's row together with this step's, or join the workflow of that id."""
        workflow_id = self._options.workflow_id or child_id(run.workflow_id, self.known_id)
        await run.kernel.launcher.room()
        caller = self.checkpoint(run, run.kernel.time.now_ms(), child=workflow_id)
        launch = self._launch(workflow_id, run)
        entry = run.kernel.launcher.submit(launch, caller)
        try:
            answer = await entry.future
        except Exception as error:
            raise refused(run, error) from error
        except BaseException:
            await_later(run, entry)
            raise
        if answer.kind is AnswerKind.LOST:
            await run.kernel.journal.lose(run)
        if answer.kind is AnswerKind.CONFLICT:
            if answer.standing is None:
                raise run.disagree(self.known_id, self.name, None)
            return await self._join(run, answer, launch.row, caller)
        return await self._handle_for(answer, launch.row)

    async def _join(
        self, run: Run, answer: Answer[StandingWorkflow], row: NewWorkflow, caller: Checkpoint
    ) -> WorkflowHandle[R]:
        """Record that the workflow of that id was joined, or why it cannot be."""
        refusal: WorkflowError | None = None
        try:
            handle = await self._handle_for(answer, row)
        except (ConflictingWorkflow, WorkflowIdInUse) as error:
            refusal = error
            text = run.kernel.registry.serialization.errors.encode(error)
            caller = caller._replace(
                child_workflow_id=None, error=text, serialization=PORTABLE_JSON
            )
        standing = await run.kernel.journal.record(run, caller)
        if standing is not None:
            return await self.replay(run, standing)
        if refusal is not None:
            raise refusal
        return handle

    async def replay(self, run: Run, row: StepRow) -> WorkflowHandle[R]:
        """The child that was started then, or the refusal."""
        if row.child_workflow_id is not None:
            return self._handle(row.child_workflow_id, must_exist=False)
        if row.error is not None:
            refusal = run.error_of(row)
            if isinstance(refusal, WorkflowError):
                raise refusal
        raise run.disagree(row.step_id, f"the start of {self.name}", row)

    def _launch(self, workflow_id: WorkflowId, parent: Run | None) -> Launch:
        kernel, options = self._kernel, self._options
        text, args, kwargs = self._payload
        deadline_ms = options.deadline_ms
        if options.timeout_ms is not None:
            deadline_ms = kernel.time.now_ms() + options.timeout_ms
        elif options.inherits_deadline and parent is not None:
            deadline_ms = parent.deadline_ms
        key = self._definition.key
        row = NewWorkflow(
            workflow_id=workflow_id,
            name=key.name,
            class_name=key.class_name or None,
            config_name=key.config_name or None,
            state=WorkflowState.PENDING,
            inputs=text,
            serialization=PORTABLE_JSON,
            application_version=kernel.settings.version,
            creator=kernel.ids.token(),
            timeout_ms=options.timeout_ms,
            deadline_ms=deadline_ms,
            parent_workflow_id=parent.workflow_id if parent is not None else None,
            attributes=_attributes_text(kernel, options.attributes),
        )
        return Launch(row, self._definition, args, kwargs)

    async def _handle_for(
        self, answer: Answer[StandingWorkflow], row: NewWorkflow
    ) -> WorkflowHandle[R]:
        if answer.kind is AnswerKind.CONFLICT and answer.standing is not None:
            reject = self._options.id_policy is IdPolicy.REJECT
            check_joinable(self._definition.key, answer.standing, reject=reject)
            await self._compare_arguments(row)
        return self._handle(row.workflow_id, must_exist=True)

    async def _compare_arguments(self, row: NewWorkflow) -> None:
        """An id names one workflow: joining it with other arguments is allowed, and said."""
        kernel = self._kernel
        wanted = WorkflowFilter(ids=(row.workflow_id,), with_payloads=True)
        standing = await kernel.retry(
            lambda: kernel.store.list_workflows(wanted), "reading the workflow that was joined"
        )
        if standing and standing[0].inputs not in (None, row.inputs):
            log.warning(
                "workflow %s exists with other arguments than this start has; it is joined and "
                "this start's arguments are not used (id_policy=IdPolicy.REJECT refuses instead)",
                row.workflow_id,
            )

    def _handle(self, workflow_id: WorkflowId, *, must_exist: bool) -> WorkflowHandle[R]:
        return WorkflowHandle(Target(self._kernel, workflow_id, self._codecs.result, must_exist))


class RunCall(PendingCall[R]):
    """One run: a start and the wait for its result, with two ids inside a workflow."""

    __slots__ = ("_result", "_start")

    def __init__(
        self,
        definition: WorkflowDefinition,
        options: CallOptions,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._start: StartCall[R] = StartCall(definition, options, args, kwargs)
        refusal = self._start.refusal
        self._result: ResultCall[R] = ResultCall(None, refusal=refusal)
        super().__init__(self._start.name, self._start.step_id)

    async def _drive(self) -> R:
        handle = await self._start
        self._result.target = handle.target
        return await self._result


def _kernel_of(definition: WorkflowDefinition, options: CallOptions) -> Kernel:
    """The engine of a start; refuses one inside a step."""
    place = PLACE.get()
    if type(place) is StepScope:
        raise WrongPlace(
            f"cannot start {str(definition.key)!r} inside a step: a step that is tried again would "
            "start it again; start it in the workflow's body"
        )
    chosen = options.engine.kernel if options.engine is not None else None
    return kernel_for(definition, chosen)


def _attributes_text(kernel: Kernel, attributes: dict[str, Any] | None) -> str | None:
    if attributes is None:
        return None
    codec = kernel.registry.serialization.value(dict[str, Any], "attributes")
    return codec.encode(attributes)[0]


def checked_options(options: StartOptions) -> CallOptions:
    """The options of a call; raises `InvalidArgument` naming the wrong one."""
    refuse_unknown(options, StartOptions, InvalidArgument)
    timeout = options.get("timeout", INHERIT)
    deadline = options.get("deadline")
    if deadline is not None and timeout is not INHERIT:
        raise InvalidArgument("give timeout= or deadline=, not both")
    attributes = options.get("attributes")
    if attributes is not None and not isinstance(attributes, dict):
        raise InvalidArgument(f"attributes must be a dict, not {attributes!r}")
    given = options.get("id")
    return CallOptions(
        workflow_id=None if given is None else checked_id(given),
        timeout_ms=_timeout_ms(timeout),
        deadline_ms=None if deadline is None else _deadline_ms(deadline),
        inherits_deadline=timeout is INHERIT and deadline is None,
        attributes=attributes,
        engine=options.get("engine"),
        id_policy=IdPolicy(options.get("id_policy", IdPolicy.JOIN)),
    )


def _timeout_ms(timeout: Duration | Inherit | None) -> int | None:
    if timeout is None or isinstance(timeout, Inherit):
        return None
    return to_ms(seconds_of(timeout, "timeout", zero=False))


def _deadline_ms(deadline: datetime) -> int:
    if not isinstance(deadline, datetime) or deadline.utcoffset() is None:
        raise InvalidArgument(f"deadline must be a datetime with a time zone, not {deadline!r}")
    return int(deadline.timestamp() * 1000)


LONGEST_ID = 512


def checked_id(workflow_id: str) -> WorkflowId:
    """An id that every database can store; raises `InvalidArgument` otherwise."""
    if not isinstance(workflow_id, str) or not workflow_id.strip():
        raise InvalidArgument(f"id={workflow_id!r}: an id is a text that is not blank")
    if "\x00" in workflow_id or len(workflow_id) > LONGEST_ID:
        raise InvalidArgument(f"id={workflow_id[:40]!r}…: at most {LONGEST_ID} characters, no NUL")
    try:
        workflow_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"id={workflow_id[:40]!r}: {error}") from error
    return WorkflowId(workflow_id)


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(**options: Unpack[WorkflowOptions]) -> "WorkflowDecorator": ...
def workflow(fn: Any = None, /, **options: Unpack[WorkflowOptions]) -> Any:
    """Make an `async def` function a durable workflow.

    Works bare and with options (see `WorkflowOptions`). Its body may run several times, and must
    call the same durable operations in the same order each time: keep time, randomness and
    input-output in steps.

    >>> @workflow
    ... async def order(item: str) -> str:
    ...     return await charge(item)
    """
    decorate = WorkflowDecorator(options)
    return decorate if fn is None else decorate(fn)


class WorkflowDecorator:
    """What `workflow(...)` with options returns."""

    def __init__(self, options: WorkflowOptions) -> None:
        refuse_unknown(options, WorkflowOptions, ConfigurationError)
        limit = options.get("max_recovery_attempts", MAX_RECOVERY_ATTEMPTS)
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise ConfigurationError(
                f"max_recovery_attempts={limit!r}: it must be a whole number, at least 0"
            )
        self._options = options
        self._limit = limit

    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Workflow[P, R]:
        """Decorate a function."""
        refuse_generator(fn, "workflow")
        if not inspect.iscoroutinefunction(inspect.unwrap(fn)):
            raise RegistrationError(
                f"{fn.__qualname__} is a `def` function; a workflow is an `async def` function "
                "(put blocking work into `def` steps, which run in worker threads)"
            )
        name = checked_name(self._options.get("name", fn.__qualname__))
        definition = WorkflowDefinition(fn, WorkflowKey(name), self._limit)
        DECORATED.add_workflow(definition)
        return Workflow(fn, definition)


_NO_OPTIONS = CallOptions()
