"""Which process start owns the rows this process writes."""

import asyncio

from perdure.model.ids import ExecutorId


class Identity:
    """The executor id of the current boot; absent while there is no lease behind it."""

    def __init__(self) -> None:
        self._executor_id: ExecutorId | None = None
        self._known = asyncio.Event()

    @property
    def executor_id(self) -> ExecutorId | None:
        """The current boot's executor id, if its lease stands."""
        return self._executor_id

    def adopt(self, executor_id: ExecutorId) -> None:
        """A lease stands for this executor: rows may be written in its name."""
        self._executor_id = executor_id
        self._known.set()

    def drop(self, executor_id: ExecutorId | None) -> None:
        """That executor's lease was lost: write nothing in its name until another is adopted."""
        if executor_id == self._executor_id:
            self._executor_id = None
            self._known.clear()

    async def ready(self) -> ExecutorId:
        """The current executor id, waited for if the lease was just lost."""
        while self._executor_id is None:
            await self._known.wait()
        return self._executor_id
