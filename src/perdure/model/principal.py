"""In whose name a workflow runs."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A user, the roles he has, and the one of them in which he acts; whoever started it says so.

    Nothing here authenticates anybody.
    """

    user: str | None = None
    roles: tuple[str, ...] = ()
    assumed_role: str | None = None


NOBODY: Final = Principal()
