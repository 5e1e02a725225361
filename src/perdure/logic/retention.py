"""Which ended workflows are removed: what an operator may ask for, and what follows from it."""

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from perdure.errors import InvalidArgument, PerdureError
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.model.retention import ENDED, Expired
from perdure.model.status import WorkflowState

States: TypeAlias = WorkflowState | str | Collection[WorkflowState | str] | None
"""One state, several, or any."""

Names: TypeAlias = str | Collection[str] | None
"""One name, several, or any."""


class Policy(NamedTuple):
    """What may go: longer ended than `older_than_ms`, and not among the `keep` newest."""

    older_than_ms: int
    keep: int | None
    states: tuple[WorkflowState, ...]
    names: tuple[str, ...]

    def wanted(self, now_ms: int) -> Expired:
        """What is to go now, as far as age decides."""
        return Expired(now_ms - self.older_than_ms, self.states, self.names)


def policy_of(
    older_than: Duration | None,
    keep: int | None,
    states: States,
    names: Names,
    *,
    error: type[PerdureError] = InvalidArgument,
) -> Policy:
    """The policy of these settings; raises `error` naming the wrong one."""
    if older_than is None and keep is None:
        raise error("say what may go: older_than= (0 for whatever has ended), keep=, or both")
    if keep is not None and (type(keep) is not int or keep < 1):
        raise error(f"keep={keep!r}: it must be a whole number above 0")
    older_than_s = seconds_of(0 if older_than is None else older_than, "older_than", error=error)
    chosen = [_state(state, error) for state in _several("states", states, error)]
    named = _several("names", names, error)
    return Policy(to_ms(older_than_s), keep, tuple(chosen) or ENDED, tuple(named))


def _several(
    setting: str, given: str | Collection[str] | None, error: type[PerdureError]
) -> Collection[str]:
    """The values given; none of them means any."""
    if given is None:
        return ()
    values = (given,) if isinstance(given, str) else given
    if not isinstance(values, Collection) or not values or not all(map(_is_text, values)):
        raise error(f"{setting}={given!r}: it must be a text or several, or be left out")
    return values


def _is_text(value: object) -> bool:
    """Whether a database can compare something with it."""
    try:
        return isinstance(value, str) and b"\x00" not in value.encode()
    except UnicodeEncodeError:
        return False


def _state(state: str, error: type[PerdureError]) -> WorkflowState:
    if state not in ENDED:
        known = ", ".join(ENDED)
        raise error(
            f"states: {state!r} is no state of a workflow that has ended; those are {known}"
        )
    return WorkflowState(state)
