"""The registry of application versions."""

from typing import Protocol


class VersionStore(Protocol):
    """Rows of `application_versions` owned by this application or by none."""

    async def register_version(self, version: str) -> None:
        """Claim an unclaimed row of that name, else insert it; a known version keeps its time.

        Raises `VersionOwnedByAnother` naming the holder if another application owns the name.
        """
        ...

    async def versions(self) -> list[str]:
        """The registered versions of this application or of none, the latest first."""
        ...
