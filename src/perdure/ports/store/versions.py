"""The registry of application versions."""

from typing import Protocol

from perdure.model.version import VersionRow


class VersionStore(Protocol):
    """Rows of `application_versions` owned by this application or by none.

    Version names are global: one that another application owns is refused with
    `VersionOwnedByAnother`, which names the holder.
    """

    async def register_version(self, version: str) -> VersionRow:
        """Claim an unclaimed row of that name, else insert it; a known version keeps its time.

        Raises `VersionOwnedByAnother` naming the holder if another application owns the name.
        """
        ...

    async def promote_version(
        self, version: str, application: str | None = None
    ) -> VersionRow | None:
        """Make a registered version the latest of an application, of this one unless it is named.

        Its time becomes now, and later than that of every other version which is the application's
        or nobody's, whatever clock they were registered by. One that was nobody's becomes the
        application's. Used in no application's name, and with none named, the store makes it the
        latest of the one that it belongs to. None if no version of that name is registered; raises
        `VersionOwnedByAnother` if it is another application's.
        """
        ...

    async def versions(self, application: str | None = None) -> list[VersionRow]:
        """The registered versions of that application, this one where it is None, or of none.

        The latest comes first. Used in no application's name the store finds the versions of all.
        """
        ...
