"""What every concern of the store works with."""

from dataclasses import dataclass

from perdure.model.ids import BootId, ExecutorId
from perdure.store.postgres.database import Database


@dataclass(frozen=True, slots=True)
class Access:
    """A database and in whose name it is used, if in any application's."""

    database: Database
    application: str | None
    application_id: str


class Concern:
    """One part of the store's port."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._database = access.database
        self._application = access.application


def boot_of(executor_id: ExecutorId) -> BootId:
    """The process start an executor id names."""
    return BootId(executor_id.rpartition("/")[2])
