"""Workflows: ordinary functions, decorated."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, overload

from perdure.api.bulk import StartManyCall, start_many
from perdure.api.call_options import NO_OPTIONS, CallOptions, StartOptions, checked_options
from perdure.api.calling import RunCall, start_call
from perdure.api.handle import WorkflowHandle
from perdure.api.options import checked_roles, refuse_unknown
from perdure.api.starting import Callee, prepared
from perdure.api.step import checked_name, refuse_generator
from perdure.engine.journal import PendingCall
from perdure.engine.registry import DECORATED, MAX_RECOVERY_ATTEMPTS, WorkflowDefinition
from perdure.errors import ConfigurationError, RegistrationError
from perdure.model.workflow import WorkflowKey

P = ParamSpec("P")
R = TypeVar("R")


class WorkflowOptions(TypedDict, total=False):
    """Options of a workflow, given where it is decorated.

    `name` is what rows say instead of the function's qualified name. `max_recovery_attempts` is
    how often it is begun again after its process died, before it is set aside. With
    `required_roles` it runs only for users who have one of them.
    """

    name: str
    max_recovery_attempts: int
    required_roles: Sequence[str]


class BoundWorkflow(Generic[P, R]):
    """A workflow with the options of its next call."""

    def __init__(self, callee: Callee, options: CallOptions) -> None:
        self._callee = callee
        self._options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> RunCall[R]:
        """Run it and wait for its result."""
        callee = self._callee
        return RunCall(callee.name, prepared(callee, self._options, args, kwargs))

    def start(self, *args: P.args, **kwargs: P.kwargs) -> PendingCall[WorkflowHandle[R]]:
        """Start it; awaiting the call gives its handle once its row is written."""
        callee = self._callee
        return start_call(callee.name, prepared(callee, self._options, args, kwargs))

    def start_many(
        self, items: Iterable[tuple[Any, ...]], *, ids: Sequence[str] | None = None
    ) -> StartManyCall[R]:
        """Start it once with each tuple of positional arguments, in few statements.

        Awaiting the call gives the handles in the order of the items. All arguments are encoded
        before anything is written; each start is tried, and the first refusal is raised after that,
        with a note of its item. `ids` names the workflows, one for each item; without them a queue
        begins them in the order of the items. In a workflow each is a child, and a step of its own.

        >>> await convert.options(queue="media").start_many([("intro",), ("outro",)])
        """
        return start_many(self._callee, self._options, items, ids)


class Workflow(BoundWorkflow[P, R]):
    """A decorated workflow.

    `await wf(...)` runs it and waits; `await wf.options(...).start(...)` starts it and gives a
    handle. Inside another workflow both make a child. `fn` is the plain function.
    """

    def __init__(
        self, fn: Callable[P, Coroutine[Any, Any, R]], definition: WorkflowDefinition
    ) -> None:
        super().__init__(Callee(definition), NO_OPTIONS)
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.definition = definition

    @property
    def name(self) -> str:
        """The name its rows bear."""
        return self.definition.key.name

    def options(self, **options: Unpack[StartOptions]) -> BoundWorkflow[P, R]:
        """The same workflow with options for one call; raises `InvalidArgument` at once."""
        return BoundWorkflow(self._callee, checked_options(options))


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
        self._roles = checked_roles(
            "required_roles", options.get("required_roles", ()), ConfigurationError
        )

    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Workflow[P, R]:
        """Decorate a function."""
        refuse_generator(fn, "workflow")
        if not inspect.iscoroutinefunction(inspect.unwrap(fn)):
            raise RegistrationError(
                f"{fn.__qualname__} is a `def` function; a workflow is an `async def` function "
                "(put blocking work into `def` steps, which run in worker threads)"
            )
        name = checked_name(self._options.get("name", fn.__qualname__))
        definition = WorkflowDefinition(fn, WorkflowKey(name), self._limit, self._roles)
        DECORATED.add_workflow(definition)
        return Workflow(fn, definition)
