"""Who may run a workflow, and how that stands in its row."""

import json
from collections.abc import Sequence

from perdure.errors import NotAuthorized
from perdure.model.principal import NOBODY, Principal


def acting(principal: Principal, required: Sequence[str], workflow: str) -> Principal:
    """The principal in the role that lets him run a workflow; raises `NotAuthorized`.

    One of the required roles is enough, and none is required where none is named. The role assumed
    already stays if it is one of them, else the first that he has is assumed.
    """
    if not required:
        return principal
    held = [role for role in required if role in principal.roles]
    if not held:
        raise NotAuthorized(workflow, required, principal.user)
    if principal.assumed_role in held:
        return principal
    return principal._replace(assumed_role=held[0])


def roles_text(roles: Sequence[str]) -> str | None:
    """Roles as a row has them, in the words of every SDK; None where there are none."""
    return json.dumps(list(roles)) if roles else None


def principal_of(user: str | None, roles: str | None, assumed_role: str | None) -> Principal:
    """The principal of a row; what is no list of roles gives none."""
    if user is None and roles is None and assumed_role is None:
        return NOBODY
    return Principal(user or None, _roles(roles), assumed_role or None)


def _roles(text: str | None) -> tuple[str, ...]:
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return ()
    if not isinstance(found, list) or not all(isinstance(role, str) for role in found):
        return ()
    return tuple(found)
