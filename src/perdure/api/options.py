"""Options that are given by name."""

from collections.abc import Mapping

from perdure.errors import PerdureError


def refuse_unknown(given: Mapping[str, object], known: type, error: type[PerdureError]) -> None:
    """Raise `error` naming every option that the typed dict `known` does not have."""
    unknown = sorted(given.keys() - known.__annotations__.keys())
    if unknown:
        names = ", ".join(known.__annotations__)
        raise error(f"unknown options: {', '.join(unknown)}; there are {names}")
