"""Forgetting what our own tables keep for longer than anybody needs it."""

from perdure.ports.store.upkeep import LogPlace, Pruned
from perdure.store import rows
from perdure.store.postgres.concern import Concern


class Upkeep(Concern):
    """`UpkeepStore`."""

    async def prune_appends(self, place: LogPlace, limit: int) -> Pruned:
        """See `perdure.ports.store.UpkeepStore.prune_appends`."""
        page = await self._database.fetch("logged_page", *place, limit)
        over = rows.over_appends(page)
        if over:
            ids, appends = zip(*over, strict=True)
            await self._database.fetch("forget_append", ids, appends)
        return rows.pruned(page, len(over), limit)
