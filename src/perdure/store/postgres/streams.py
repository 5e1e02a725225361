"""Appending values to streams, and reading them."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from perdure.model.answer import MINE, WRITTEN, Answer
from perdure.model.talk import Appending, StreamRow
from perdure.model.workflow import StepRow
from perdure.ports.store.streams import Reading, StreamPage
from perdure.store import rows
from perdure.store.postgres.batch import in_waves, packed, past_duplicates
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.lanes import Record
from perdure.store.postgres.steps import (
    CHECKPOINT_NUMBERS,
    CHECKPOINT_WIDTH,
    held_up,
    standing_steps,
    step_place,
    step_verdict,
    with_application,
)

_INSIDE_STEP: Final = (None,) * (CHECKPOINT_WIDTH - 3)
"""In place of what of a caller is not in every item."""


class Streams(Concern):
    """`StreamStore`."""

    async def append(self, items: Sequence[Appending]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.StreamStore.append`."""
        return await in_waves(items, _keys, self._append)

    async def _append(self, items: Sequence[Appending]) -> list[Answer[StepRow]]:
        columns = with_application(
            packed([_values(item) for item in items], CHECKPOINT_NUMBERS),
            self._application,
            self._database.offset_ms,
        )
        (row,) = await past_duplicates(lambda: self._database.hot("append", "append", *columns))
        if row["places"] is None:
            return [WRITTEN] * len(items)
        appended = {int(place) for place in row["places"]}
        left = [item for place, item in enumerate(items, 1) if place not in appended]
        reasons = iter(await self._append_reasons(left))
        return [
            WRITTEN if place in appended else next(reasons) for place in range(1, len(items) + 1)
        ]

    async def _append_reasons(self, items: Sequence[Appending]) -> list[Answer[StepRow]]:
        """Why these were not appended."""
        asked = packed([(item.workflow_id, item.append_id) for item in items])
        logged = await self._database.hot("append", "logged_appends", *asked)
        places = [(item.workflow_id, item.step_id) for item in items]
        standing = await standing_steps(self._database, "append", places)
        return [
            _verdict(item, is_logged=log["is_logged"], row=row)
            for item, log, row in zip(items, logged, standing, strict=True)
        ]

    async def stream_pages(self, readings: Sequence[Reading]) -> list[StreamPage]:
        """See `perdure.ports.store.StreamStore.stream_pages`."""
        if not readings:
            return []
        asked = packed(
            [(*reading.key, reading.offset, reading.limit) for reading in readings], {2, 3}
        )
        found: list[list[Record]] = [[] for _ in readings]
        for row in await self._database.kept("stream_pages", *asked):
            found[row["place"] - 1].append(row)
        return [_page(page) for page in found]


def _keys(item: Appending) -> Iterable[Hashable]:
    if item.caller is not None:
        yield step_place(item.caller)
    else:
        yield item.workflow_id, item.append_id


def _values(item: Appending) -> tuple[Any, ...]:
    caller = item.caller
    step = (item.workflow_id, item.owner, item.step_id, *_INSIDE_STEP) if caller is None else caller
    return (*step, item.key, item.value, item.serialization, item.append_id)


def _verdict(item: Appending, *, is_logged: bool, row: Record) -> Answer[StepRow]:
    if item.caller is not None:
        return step_verdict(item.caller, row)
    return MINE if is_logged else held_up(row, item.owner)


def _page(found: Sequence[Record]) -> StreamPage:
    word = found[0]["status"]
    values: list[StreamRow] = [rows.stream_row(row) for row in found if row["offset"] is not None]
    return StreamPage(tuple(values), None if word is None else rows.awaited_state(word))
