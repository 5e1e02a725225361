"""Enqueueing workflows by name, for processes that have their code."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.api.bulk import Planned, StartManyCall, begin_all, prepared_each
from perdure.api.call_options import CallOptions, EnqueueOptions, StartOptions, checked_options
from perdure.api.calling import start_call
from perdure.api.debouncing import begin_debounced
from perdure.api.handle import WorkflowHandle
from perdure.api.options import checked_several, checked_text
from perdure.api.queue import Queue
from perdure.api.starting import (
    Callee,
    Plan,
    Prepared,
    begin,
    plan_of,
    planned,
    prepared,
)
from perdure.engine.intake import Intake
from perdure.engine.journal import PendingCall
from perdure.engine.kernel import Kernel
from perdure.engine.registry import WorkflowCodecs, WorkflowDefinition
from perdure.errors import InvalidArgument, PerdureError
from perdure.model.workflow import WorkflowKey
from perdure.serialization import Serialization

if TYPE_CHECKING:
    from perdure.api.engine import Engine


@dataclass(frozen=True, slots=True)
class Submission:
    """A workflow by the name its rows bear, with the arguments of one call.

    The values of arguments are JSON's kinds, for nothing says here how the function annotates them.
    `class_name` and `config_name` are for SDKs whose workflows are methods. `options` are for this
    one call, and go before those that many share.
    """

    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    class_name: str = ""
    config_name: str = ""
    options: EnqueueOptions = field(default_factory=EnqueueOptions)

    def __post_init__(self) -> None:
        checked_text("name", self.name)
        for part in ("class_name", "config_name"):
            if getattr(self, part) != "":
                checked_text(part, getattr(self, part))
        if not isinstance(self.args, (tuple, list)):
            raise InvalidArgument(f"args={self.args!r:.40}: it must be a tuple; write (x,)")
        if not isinstance(self.kwargs, Mapping):
            raise InvalidArgument(f"kwargs={self.kwargs!r:.40}: it must be a dict")

    @property
    def key(self) -> WorkflowKey:
        """What its row names as its function."""
        return WorkflowKey(self.name, self.class_name, self.config_name)


async def _anything(*args: Any, **kwargs: Any) -> Any:
    """Has the place of a function that is in another process; never called."""
    raise NotImplementedError(args, kwargs)


class NamedCallee(Callee):
    """A workflow of which no more is known than its name."""

    __slots__ = ("_codecs",)

    def __init__(self, key: WorkflowKey) -> None:
        super().__init__(WorkflowDefinition(_anything, key))
        self._codecs: WorkflowCodecs | None = None

    def codecs(self, kernel: Kernel) -> WorkflowCodecs:
        """See `codecs_by`."""
        return self.codecs_by(kernel.registry.serialization)

    def codecs_by(self, serialization: Serialization) -> WorkflowCodecs:
        """Arguments and result by the equality rule for what is not annotated."""
        if self._codecs is None:
            name = str(self.definition.key)
            self._codecs = WorkflowCodecs(
                serialization.arguments(_anything, f"workflow {name!r}"),
                serialization.value(Any, f"result of {name!r}"),
            )
        return self._codecs


PlanFor = Callable[[NamedCallee, CallOptions], Plan]
"""Where a call goes and how; raises what it cannot be made for."""


def enqueue(
    engine: "Engine", submission: Submission, queue: Queue | str, options: EnqueueOptions
) -> PendingCall[WorkflowHandle[Any]]:
    """Put one workflow into a queue; raises `InvalidArgument` at once for a wrong option."""
    given = _given(options, queue, engine)
    return start_call(submission.name, _start(plan_of, submission, given))


def enqueue_many(
    engine: "Engine",
    submissions: Iterable[Submission],
    queue: Queue | str,
    options: EnqueueOptions,
) -> StartManyCall[Any]:
    """Put many workflows into a queue, as `start_many` does."""
    given = _given(options, queue, engine)
    starts = _starts(plan_of, submissions, given)
    return StartManyCall("enqueue_many", starts)


async def enqueue_through(
    intake: Intake, submission: Submission, queue: Queue | str, options: EnqueueOptions
) -> WorkflowHandle[Any]:
    """Put one workflow into a queue from a process that has no engine; in no workflow a step."""
    given = _given(options, queue, None)
    start = _start(_plan_through(intake), submission, given)
    if isinstance(start, PerdureError):
        raise start
    if start.plan.options.placement.debounce is not None:
        return await begin_debounced(start)
    return await begin(start)


async def enqueue_many_through(
    intake: Intake,
    submissions: Iterable[Submission],
    queue: Queue | str,
    options: EnqueueOptions,
) -> list[WorkflowHandle[Any]]:
    """Put many workflows into a queue in the same way."""
    given = _given(options, queue, None)
    starts = _starts(_plan_through(intake), submissions, given)
    if isinstance(starts, PerdureError):
        raise starts
    return await begin_all(starts)


def _plan_through(intake: Intake) -> PlanFor:
    def plan_for(callee: NamedCallee, options: CallOptions) -> Plan:
        codecs = callee.codecs_by(intake.desk.speaker.serialization)
        return planned(intake, callee.definition, codecs, options)

    return plan_for


def _start(
    plan_for: PlanFor, submission: Submission, given: StartOptions
) -> Prepared | PerdureError:
    return prepared(
        NamedCallee(submission.key),
        checked_options({**given, **submission.options}),
        tuple(submission.args),
        dict(submission.kwargs),
        plan_for,
    )


def _starts(
    plan_for: PlanFor, submissions: Iterable[Submission], given: StartOptions
) -> list[Prepared] | PerdureError:
    shared = checked_options(given)
    if shared.workflow_id is not None:
        raise InvalidArgument("id= names one workflow; give it in the options of a Submission")
    try:
        return prepared_each(_planned(plan_for, submissions, given, shared))
    except PerdureError as refusal:
        return refusal


def _planned(
    plan_for: PlanFor,
    submissions: Iterable[Submission],
    given: StartOptions,
    shared: CallOptions,
) -> Iterator[Planned]:
    callees: dict[WorkflowKey, NamedCallee] = {}
    plans: dict[WorkflowKey, Plan] = {}
    for submission in checked_several("submissions", submissions, "Submissions"):
        if not isinstance(submission, Submission):
            raise InvalidArgument(f"enqueue_many takes Submissions, not {submission!r:.40}")
        key = submission.key
        callee = callees.get(key)
        if callee is None:
            callee = callees[key] = NamedCallee(key)
        if submission.options:
            plan = plan_for(callee, checked_options({**given, **submission.options}))
        elif key in plans:
            plan = plans[key]
        else:
            plan = plans[key] = plan_for(callee, shared)
        yield plan, tuple(submission.args), dict(submission.kwargs), plan.options.workflow_id


def _given(options: EnqueueOptions, queue: Queue | str, engine: "Engine | None") -> StartOptions:
    if queue is None:
        raise InvalidArgument("queue=None: a workflow that another process runs needs a queue")
    return {**options, "queue": queue, "engine": engine}
