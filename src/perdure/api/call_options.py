"""The options of one call, and what they mean."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from perdure.api.options import (
    checked_choice,
    checked_roles,
    checked_several,
    checked_text,
    refuse_unknown,
)
from perdure.api.placement import HERE, Placement, PlacementOptions, placement_of
from perdure.api.queue import Queue
from perdure.errors import InvalidArgument
from perdure.logic.durations import Duration, seconds_of, to_ms
from perdure.model.ids import WorkflowId
from perdure.model.principal import Principal

if TYPE_CHECKING:
    from perdure.api.engine import Engine


Ids: TypeAlias = str | Iterable[str]
"""One workflow, or several."""


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


class EnqueueOptions(PlacementOptions, total=False):
    """Options of one call that enqueues.

    `id` names the workflow and is its idempotency key; `id_policy` says what an existing id means.
    `timeout` (a duration from the moment it begins, so that waiting in a queue is not charged) or
    `deadline` (an aware datetime) bounds it, None makes it unbounded; a child not given one takes
    its parent's deadline. `attributes` is a JSON object kept with the row. `authenticated_user`,
    his `authenticated_roles`, and the `assumed_role` among them say for whom it runs, which nothing
    checks but a workflow's `required_roles`; a child given none of the three has its parent's.
    `serializer` names the format of its arguments, steps and result, one of the engine's own or
    `portable_json`; a child has its parent's unless given one. The others say where in the queue it
    stands; see `PlacementOptions`.
    """

    id: str | None
    id_policy: IdPolicy
    timeout: Duration | None
    deadline: datetime
    attributes: dict[str, Any]
    authenticated_user: str | None
    authenticated_roles: Sequence[str]
    assumed_role: str | None
    serializer: str | None


class StartOptions(EnqueueOptions, total=False):
    """Options of one call of a workflow.

    With `queue` it is enqueued, without it starts here and now. `engine` chooses among several
    running engines. The others are those of `EnqueueOptions`.
    """

    queue: Queue | str | None
    engine: "Engine | None"


class CallOptions(msgspec.Struct, frozen=True):
    """The options of one call, checked as far as they can be by themselves."""

    workflow_id: WorkflowId | None = None
    timeout_ms: int | None = None
    deadline_ms: int | None = None
    inherits_deadline: bool = True
    attributes: dict[str, Any] | None = None
    engine: "Engine | None" = None
    id_policy: IdPolicy = IdPolicy.JOIN
    placement: Placement = HERE
    principal: Principal | None = None
    serializer: str | None = None


NO_OPTIONS: Final = CallOptions()


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
        id_policy=checked_choice("id_policy", IdPolicy, options.get("id_policy", IdPolicy.JOIN)),
        placement=placement_of(options.get("queue"), options),
        principal=_principal(options),
        serializer=options.get("serializer"),
    )


_PRINCIPAL: Final = frozenset({"authenticated_user", "authenticated_roles", "assumed_role"})


def _principal(options: StartOptions) -> Principal | None:
    """For whom the workflow runs; None where nothing is said of it."""
    if _PRINCIPAL.isdisjoint(options):
        return None
    user, assumed = options.get("authenticated_user"), options.get("assumed_role")
    roles = checked_roles("authenticated_roles", options.get("authenticated_roles", ()))
    if assumed is not None and assumed not in roles:
        raise InvalidArgument(
            f"assumed_role={assumed!r}: it must be one of authenticated_roles ({', '.join(roles)})"
        )
    if user is None and roles:
        raise InvalidArgument("authenticated_roles= needs authenticated_user=: whose are they?")
    return Principal(
        None if user is None else checked_text("authenticated_user", user), roles, assumed
    )


def checked_id(workflow_id: str) -> WorkflowId:
    """An id that every database can store; raises `InvalidArgument` otherwise."""
    return WorkflowId(checked_text("id", workflow_id))


def checked_ids(ids: Ids) -> tuple[WorkflowId, ...]:
    """One such id, or several."""
    return (checked_id(ids),) if isinstance(ids, str) else tuple(several_ids("ids", ids))


def several_ids(option: str, ids: Iterable[str]) -> Sequence[WorkflowId]:
    """Such ids; a text is none of several."""
    return [checked_id(each) for each in checked_several(option, ids, "ids")]


def _timeout_ms(timeout: Duration | Inherit | None) -> int | None:
    if timeout is None or isinstance(timeout, Inherit):
        return None
    return to_ms(seconds_of(timeout, "timeout", zero=False))


def _deadline_ms(deadline: datetime) -> int:
    if not isinstance(deadline, datetime) or deadline.utcoffset() is None:
        raise InvalidArgument(f"deadline must be a datetime with a time zone, not {deadline!r}")
    return int(deadline.timestamp() * 1000)
