"""Forgetting what our own tables keep for longer than anybody needs it."""

from perdure.ports.store.upkeep import LogPlace, Pruned
from perdure.store import rows
from perdure.store.sqlite.concern import Concern


class Upkeep(Concern):
    """`UpkeepStore`."""

    async def prune_appends(self, place: LogPlace, limit: int) -> Pruned:
        """See `perdure.ports.store.UpkeepStore.prune_appends`."""
        asked = {**place._asdict(), "limit": limit}
        page = await self._database.read(
            lambda connection: connection.rows(self._queries["logged_page"], asked)
        )
        over = rows.over_appends(page)
        if over:
            # Who has ended writes nothing more: what was found holds still.
            await self._database.write(
                lambda transaction: transaction.change_each(self._queries["forget_append"], over)
            )
        return rows.pruned(page, len(over), limit)
