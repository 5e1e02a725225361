"""Starting workflows: here and now or through a queue, alone or as children."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from perdure.api.call_options import CallOptions, IdPolicy
from perdure.api.handle import Target, WorkflowHandle
from perdure.api.placement import check_placements
from perdure.api.running import kernel_for
from perdure.api.values import attributes_text
from perdure.engine.context import PLACE, StepScope
from perdure.engine.intake import Intake, StartAnswer
from perdure.engine.journal import DurableCall, await_later, note_record, refused
from perdure.engine.kernel import Kernel
from perdure.engine.launcher import Launch, check_joinable, child_id
from perdure.engine.registry import WorkflowCodecs, WorkflowDefinition
from perdure.engine.run import Run
from perdure.engine.talk import Speaker
from perdure.errors import (
    ConflictingWorkflow,
    InvalidArgument,
    PerdureError,
    QueueDeduplicated,
    UsageError,
    WorkflowError,
    WorkflowIdInUse,
    WrongPlace,
)
from perdure.logic.principals import acting, roles_text
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.listing import ListingRequest
from perdure.model.principal import NOBODY, Principal
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import NewWorkflow, StandingWorkflow, StepRow

log = logging.getLogger("perdure")

R = TypeVar("R")
C = TypeVar("C", bound="Callee")


class Callee:
    """A workflow that can be called: its function, and how its values are stored."""

    __slots__ = ("definition",)

    def __init__(self, definition: WorkflowDefinition) -> None:
        self.definition = definition

    @property
    def name(self) -> str:
        """The name its rows bear."""
        return self.definition.key.name

    def codecs(self, kernel: Kernel) -> WorkflowCodecs:
        """How an engine stores its values; raises `NotRegistered` if it does not run it."""
        return kernel.registry.codecs(kernel.registry.require(self.definition))


class Plan(NamedTuple):
    """What all starts of one call have in common."""

    intake: Intake
    definition: WorkflowDefinition
    codecs: WorkflowCodecs
    options: CallOptions
    attributes: str | None
    principal: Principal
    label: str

    async def check(self) -> None:
        """Raise what cannot be enqueued, by what is registered now."""
        placement = self.options.placement
        if placement.queue is not None:
            await check_placements(self.intake, (placement,))


class Prepared(NamedTuple):
    """One start whose arguments are encoded; `workflow_id` is None where none was given."""

    plan: Plan
    payload: tuple[str, Sequence[Any], Mapping[str, Any]]
    workflow_id: WorkflowId | None

    def launch(self, workflow_id: WorkflowId, parent: Run | None) -> Launch:
        """The row and what running it needs."""
        intake, definition, _, options, attributes, principal, label = self.plan
        text, args, kwargs = self.payload
        placement = options.placement
        deadline_ms = options.deadline_ms
        if options.timeout_ms is not None:
            if placement.queue is None:
                deadline_ms = intake.now_ms() + options.timeout_ms
        elif options.inherits_deadline and parent is not None:
            deadline_ms = parent.deadline_ms
        key, dedup_id = definition.key, placement.dedup_id
        if placement.debounce is not None:
            dedup_id = placement.debounce.dedup_id(key.name)
        row = NewWorkflow(
            workflow_id=workflow_id,
            name=key.name,
            class_name=key.class_name or None,
            config_name=key.config_name or None,
            state=placement.state,
            inputs=text,
            serialization=label,
            application_version=placement.version or intake.version_of(placement.application),
            creator=intake.desk.ids.token(),
            queue_name=placement.queue,
            priority=placement.priority,
            deduplication_id=dedup_id,
            partition_key=placement.partition_key,
            delay_ms=placement.delay_ms,
            timeout_ms=options.timeout_ms,
            deadline_ms=deadline_ms,
            parent_workflow_id=parent.workflow_id if parent is not None else None,
            attributes=attributes,
            authenticated_user=principal.user,
            authenticated_roles=roles_text(principal.roles),
            assumed_role=principal.assumed_role,
            application_name=placement.application,
            debounce_ms=placement.debounce.timeout_ms if placement.debounce else None,
        )
        return Launch(row, definition, args, kwargs, principal)

    def handle(self, workflow_id: WorkflowId, *, must_exist: bool) -> WorkflowHandle[Any]:
        """A handle that reads results as the workflow stores them."""
        plan = self.plan
        return WorkflowHandle(Target(plan.intake.desk, workflow_id, plan.codecs.result, must_exist))


def plan_of(callee: Callee, options: CallOptions) -> Plan:
    """Where a call goes and how; raises what it cannot be made for."""
    place = PLACE.get()
    if type(place) is StepScope:
        raise WrongPlace(
            f"cannot start {str(callee.definition.key)!r} inside a step: a step that is tried "
            "again would start it again; start it in the workflow's body"
        )
    chosen = options.engine.kernel if options.engine is not None else None
    kernel = kernel_for(callee.definition, chosen)
    parent = None if place is None else place.run
    return planned(kernel.intake, callee.definition, callee.codecs(kernel), options, parent)


def planned(
    intake: Intake,
    definition: WorkflowDefinition,
    codecs: WorkflowCodecs,
    options: CallOptions,
    parent: Run | None = None,
) -> Plan:
    """What all starts of one call have in common, which go that way; raises `NotAuthorized`."""
    serialization = intake.desk.speaker.serialization
    label = PORTABLE_JSON
    if parent is not None:
        label = parent.kernel.registry.step_label(parent.serialization)
    if options.serializer is not None:
        label = serialization.chosen(options.serializer)
    principal = options.principal or (NOBODY if parent is None else parent.principal)
    principal = acting(principal, definition.required_roles, str(definition.key))
    attributes, debounce = None, options.placement.debounce
    if debounce is not None:
        if options.id_policy is IdPolicy.REJECT:
            raise InvalidArgument("id_policy=IdPolicy.REJECT cannot go with debounce=")
        debounce.dedup_id(definition.key.name)
    if options.attributes is not None:
        attributes = attributes_text(serialization, options.attributes)
    return Plan(intake, definition, codecs, options, attributes, principal, label)


def prepared(
    callee: C,
    options: CallOptions,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    plan_for: Callable[[C, CallOptions], Plan] = plan_of,
) -> Prepared | PerdureError:
    """One start, ready to be written, or why it cannot be."""
    try:
        plan = plan_for(callee, options)
        payload = plan.codecs.arguments.encode(args, kwargs, plan.label)
    except PerdureError as refusal:
        return refusal
    return Prepared(plan, payload, options.workflow_id)


def begun_or_joined(start: Prepared, row: NewWorkflow, answer: StartAnswer) -> WorkflowId:
    """The id of the workflow that a start began or joins; raises why it cannot join one."""
    standing = answer.standing
    if standing is None:
        return row.workflow_id
    if standing.workflow_id != row.workflow_id:
        _check_holder(start, row, standing)
        return standing.workflow_id
    reject = start.plan.options.id_policy is IdPolicy.REJECT
    check_joinable(start.plan.definition.key, standing, reject=reject)
    if None not in (row.queue_name, standing.queue_name) and row.queue_name != standing.queue_name:
        log.warning(
            "workflow %s exists on queue %r; it is joined there and does not move to queue %r",
            row.workflow_id,
            standing.queue_name,
            row.queue_name,
        )
    return row.workflow_id


def _check_holder(start: Prepared, row: NewWorkflow, standing: StandingWorkflow) -> None:
    """Raise `QueueDeduplicated` unless the call takes the holder for its own workflow.

    One of another function it cannot be, whatever the policy.
    """
    plan = start.plan
    if not plan.options.placement.joins_holder or standing.key != plan.definition.key:
        raise QueueDeduplicated(
            row.workflow_id,
            row.queue_name or "",
            row.deduplication_id or "",
            standing.workflow_id,
        )


async def compare_arguments(speaker: Speaker, rows: Sequence[NewWorkflow]) -> None:
    """An id names one workflow: joining it with other arguments is allowed, and said."""
    # Other formats need not write the same text twice.
    wanted = {row.workflow_id: row.inputs for row in rows if row.serialization == PORTABLE_JSON}
    if not wanted:
        return
    asked = ListingRequest(ids=tuple(wanted), with_inputs=True, limit=len(wanted))
    standing = await speaker.retry(
        lambda: speaker.store.list_workflows(asked), "reading the workflows that were joined"
    )
    for found in standing:
        is_shared = found.serialization == PORTABLE_JSON
        if is_shared and found.inputs not in (None, wanted[found.workflow_id]):
            log.warning(
                "workflow %s exists with other arguments than this start has; it is joined and "
                "this start's arguments are not used (id_policy=IdPolicy.REJECT refuses instead)",
                found.workflow_id,
            )


async def begin(start: Prepared) -> WorkflowHandle[Any]:
    """Start a workflow that has no parent, or join one."""
    intake = start.plan.intake
    await start.plan.check()
    await intake.launches.room()
    launch = start.launch(start.workflow_id or intake.desk.ids.workflow_id(), None)
    answer = await intake.launches.submit(launch).future
    return start.handle(await _found(start, launch.row, answer), must_exist=True)


async def _found(start: Prepared, row: NewWorkflow, answer: StartAnswer) -> WorkflowId:
    found = begun_or_joined(start, row, answer)
    if answer.standing is not None and found == row.workflow_id:
        await compare_arguments(start.plan.intake.desk.speaker, [row])
    return found


class StartCall(DurableCall[WorkflowHandle[R]]):
    """One start; in a workflow a step under the child's name, written with the child's row.

    What the call alone decides is refused before it takes a step id. What is refused for what the
    database holds (an id or a deduplication id that is taken, a queue that is not registered or
    does not take the call) is recorded as the step, so that a body that catches it goes the same
    way at a replay, when the database may hold something else.
    """

    __slots__ = ("start",)

    def __init__(self, name: str, start: Prepared | PerdureError) -> None:
        super().__init__(name, start if isinstance(start, PerdureError) else None)
        if isinstance(start, Prepared):
            self.start = start

    async def plain(self) -> WorkflowHandle[R]:
        """Start a workflow that has no parent."""
        return await begin(self.start)

    async def perform(self, run: Run) -> WorkflowHandle[R]:
        """Write the child's row together with this step's, or join the workflow of that id."""
        start, launcher = self.start, run.kernel.launcher
        workflow_id = start.workflow_id or child_id(run.workflow_id, self.known_id)
        try:
            await start.plan.check()
        except UsageError as refusal:
            return await self.refuse_by(run, refusal)
        await run.kernel.journal.open_scopes(run, self.known_id)
        await launcher.room()
        caller = self.checkpoint(run, run.kernel.time.now_ms(), child=workflow_id)
        launch = start.launch(workflow_id, run)
        entry = launcher.submit(launch, caller)
        try:
            answer = await entry.future
        except Exception as error:
            raise refused(run, error) from error
        except BaseException:
            if not entry.is_out:
                # Not sent: it is withdrawn, like any write of a call that is cancelled.
                entry.then = None
            await_later(run, entry)
            raise
        if answer.kind is AnswerKind.LOST:
            await run.kernel.journal.lose(run)
        if answer.kind is AnswerKind.CONFLICT:
            return await self.join(run, launch.row, answer)
        note_record(self.known_id)
        return start.handle(workflow_id, must_exist=True)

    async def join(self, run: Run, row: NewWorkflow, answer: StartAnswer) -> WorkflowHandle[R]:
        """Record which workflow was joined, or why it cannot be."""
        if answer.standing is None:
            raise run.disagree(self.known_id, self.name, None)
        try:
            found = await _found(self.start, row, answer)
        except (ConflictingWorkflow, WorkflowIdInUse, QueueDeduplicated) as refusal:
            return await self.refuse_by(run, refusal)
        now_ms = run.kernel.time.now_ms()
        standing = await run.kernel.journal.record(run, self.checkpoint(run, now_ms, child=found))
        if standing is not None:
            return await self.replay(run, standing)
        return self.start.handle(found, must_exist=True)

    async def refuse_by(self, run: Run, refusal: PerdureError) -> WorkflowHandle[R]:
        """Record why nothing is started, and raise it."""
        text = run.kernel.registry.serialization.errors.encode(refusal)
        standing = await run.kernel.journal.record(
            run,
            self.checkpoint(run, run.kernel.time.now_ms(), error=text, serialization=PORTABLE_JSON),
        )
        if standing is not None:
            return await self.replay(run, standing)
        raise refusal

    async def replay(self, run: Run, row: StepRow) -> WorkflowHandle[R]:
        """The child that was started then, or the refusal."""
        if row.child_workflow_id is not None:
            return self.start.handle(row.child_workflow_id, must_exist=False)
        if row.error is not None:
            refusal = run.error_of(row)
            if isinstance(refusal, (WorkflowError, UsageError)):
                raise refusal
        raise run.disagree(row.step_id, f"the start of {self.name}", row)
