"""Where code runs: outside, in the body of a run, or inside a step; and what it may ask."""

import threading
from asyncio import CancelledError, Task
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from perdure.errors import WrongPlace
from perdure.logic.numbering import Numbering
from perdure.model.ids import StepId, WorkflowId
from perdure.model.principal import NOBODY
from perdure.model.workflow import Checkpoint

if TYPE_CHECKING:
    from perdure.engine.run import Run


class CancellationToken:
    """Tells work that cannot be stopped, such as a thread, that its attempt was abandoned.

    It fires when the attempt times out, is preempted, loses a race, or the engine gives it up;
    never for an attempt that reached an outcome. Safe to use from any thread.
    """

    __slots__ = ("_callbacks", "_event", "_lock")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether the token has fired."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block the calling thread until the token fires or `timeout` seconds pass."""
        return self._event.wait(timeout)

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the token fires, in the thread that fires it; at once if it has."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def cancel(self) -> None:
        """Fire the token. This stops no step and no workflow by itself."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
            self._event.set()
        for callback in callbacks:
            callback()


NEVER: Final = CancellationToken()
"""What code outside a step gets: nothing fires it."""


class Branch:
    """A place where durable calls are numbered: the body of a run, or a branch of a scope.

    Two executions of one workflow id are different branches: identity is this object. `calls`
    counts the durable calls of this place that are under way.
    """

    __slots__ = ("calls", "is_over", "numbering", "outer", "run", "task", "title")

    def __init__(
        self,
        run: "Run",
        numbering: Numbering,
        outer: "Branch | None" = None,
        title: tuple[int, str] | None = None,
    ) -> None:
        self.run = run
        self.numbering = numbering
        self.outer = outer
        self.title = title
        self.task: Task[Any] | None = None
        self.calls = 0
        self.is_over = False

    def is_within(self, other: "Branch") -> bool:
        """Whether it is that place, or one of the branches that began in it."""
        place: Branch | None = self
        while place is not None and place is not other:
            place = place.outer
        return place is other

    def __str__(self) -> str:
        where = f"in workflow {self.run.workflow_id!r}"
        if self.title is None:
            return where
        position, scope = self.title
        return f"in branch {position} of a {scope} {where}"


class _Occupied(Numbering):
    """The ids of a place while a scope of it is under way: they are its branches'."""

    def take(self) -> StepId:
        """Refuse."""
        raise WrongPlace(
            "a durable call cannot be built here while a gather, map, select or timeout of the "
            "same place is under way: build it inside a branch, or before"
        )


class _Ended(Numbering):
    """The ids of a branch that is over: there are none."""

    def take(self) -> StepId:
        """Cancel once more: a branch that lost cannot go on by catching its cancellation."""
        raise CancelledError("the branch in which a durable call was built has ended")


OCCUPIED: Final = _Occupied()
ENDED: Final = _Ended()


class StepScope:
    """One attempt of a step; durable calls inside it are plain."""

    __slots__ = ("_appends", "_token", "attempt", "max_attempts", "run", "step_id")

    def __init__(self, run: "Run", step_id: StepId, attempt: int, max_attempts: int) -> None:
        self.run = run
        self.step_id = step_id
        self.attempt = attempt
        self.max_attempts = max_attempts
        self._token: CancellationToken | None = None
        self._appends = 0

    def count_append(self) -> int:
        """Which append to a stream this is in the attempt, from 0."""
        self._appends += 1
        return self._appends - 1

    @property
    def token(self) -> CancellationToken:
        """This attempt's own token, made when somebody asks for it."""
        if self._token is None:
            self._token = CancellationToken()
        return self._token

    def abandon(self) -> None:
        """Fire the token, if anybody holds it."""
        if self._token is not None:
            self._token.cancel()

    def __str__(self) -> str:
        return f"inside step {self.step_id} of workflow {self.run.workflow_id!r}"


Place = Branch | StepScope

PLACE: ContextVar[Place | None] = ContextVar("perdure_place", default=None)


class Opens(Protocol):
    """A scope whose open row is written with the first record inside it."""

    def opening(self) -> Checkpoint | None:
        """The open row, always the same one, until it is known to stand."""
        ...

    def opened(self) -> None:
        """It stands."""
        ...


class Track:
    """What one branch of a scope records, which every scope around it has to know.

    `untold` are the steps that took a message which no code has seen yet: those of a *leaf*, a
    pending call, are seen when its scope ends. A *sealed* one is replayed to its end: it records
    nothing new.
    """

    __slots__ = ("for_good", "is_leaf", "is_sealed", "outer", "scope", "untold")

    def __init__(
        self, scope: Opens, outer: "Track | None", *, is_leaf: bool, is_sealed: bool
    ) -> None:
        self.scope = scope
        self.outer = outer
        self.is_leaf = is_leaf
        self.is_sealed: bool = is_sealed or (outer is not None and outer.is_sealed)
        self.untold: set[StepId] = set()
        self.for_good: int | None = None
        """The highest id whose record stands for good."""

    @property
    def highest(self) -> int | None:
        """The highest id recorded in it, scopes within included; None if it recorded nothing."""
        if not self.untold:
            return self.for_good
        return max(*self.untold, -1 if self.for_good is None else self.for_good)

    def note(self, step_id: StepId) -> None:
        """A record stands under that id, for good."""
        track: Track | None = self
        while track is not None:
            if track.for_good is None or step_id > track.for_good:
                track.for_good = step_id
            track = track.outer

    def openings(self) -> list[tuple[Opens, Checkpoint]]:
        """The open rows that have to be written with the next record, the outermost first."""
        found: list[tuple[Opens, Checkpoint]] = []
        track: Track | None = self
        while track is not None:
            row = track.scope.opening()
            if row is not None:
                found.append((track.scope, row))
            track = track.outer
        return found[::-1]

    def took(self, step_id: StepId) -> None:
        """A step took a message: its record is put back with it if no code ever sees it."""
        track: Track | None = self
        while track is not None:
            track.untold.add(step_id)
            track = track.outer

    def told(self) -> None:
        """Code has seen the messages: their records stand for good."""
        untold = tuple(self.untold)
        self.put_back(untold)
        for step_id in untold:
            self.note(step_id)

    def put_back(self, step_ids: Iterable[StepId]) -> None:
        """These messages can be taken again; the records of their taking are gone."""
        track: Track | None = self
        while track is not None:
            track.untold.difference_update(step_ids)
            track = track.outer


TRACK: ContextVar[Track | None] = ContextVar("perdure_track", default=None)


def describe(place: Place | None) -> str:
    """The place in words."""
    return "outside a workflow" if place is None else str(place)


class Current:
    """What code can ask about where it runs."""

    __slots__ = (
        "assumed_role",
        "attempt",
        "authenticated_roles",
        "authenticated_user",
        "cancellation",
        "max_attempts",
        "step_id",
        "workflow_id",
    )

    def __init__(self) -> None:
        place = PLACE.get()
        inside = place if isinstance(place, StepScope) else None
        self.workflow_id: WorkflowId | None = place.run.workflow_id if place else None
        """The workflow's id, also inside its steps; None outside."""
        self.step_id: StepId | None = inside.step_id if inside else None
        """The enclosing step's id, the same for all its attempts; None outside a step."""
        self.attempt: int | None = inside.attempt if inside else None
        """Which attempt of the step this is, from 1; None outside a step."""
        self.max_attempts: int | None = inside.max_attempts if inside else None
        """How many attempts the step has at most; None outside a step."""
        self.cancellation: CancellationToken = inside.token if inside else NEVER
        """Fires when this attempt is abandoned; outside a step it never fires."""
        principal = place.run.principal if place else NOBODY
        self.authenticated_user: str | None = principal.user
        """For whom the workflow runs, if whoever started it said so."""
        self.authenticated_roles: tuple[str, ...] = principal.roles
        """The roles that user has."""
        self.assumed_role: str | None = principal.assumed_role
        """The role in which the workflow runs: one that it requires, or one that was given."""


def current() -> Current:
    """Where the calling code runs: its workflow, step, attempt and cancellation token.

    A decorated step called plainly, outside a workflow, reports no workflow and no step.
    """
    return Current()
