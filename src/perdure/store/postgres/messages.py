"""Sending messages to workflows, and taking them."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from perdure.model.answer import BUSY, MINE, WRITTEN, Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.talk import NewMessage, Receiving, Sending, Topic
from perdure.model.workflow import Checkpoint, StepRow
from perdure.store import rows
from perdure.store.postgres.batch import in_waves, packed, packed_columns, transposed
from perdure.store.postgres.concern import Concern
from perdure.store.postgres.lanes import Record
from perdure.store.postgres.steps import (
    CHECKPOINT_NUMBERS,
    CHECKPOINT_WIDTH,
    held_up,
    standing_steps,
    step_answers,
    step_place,
    with_application,
)

SendAnswer = Answer[StepRow | frozenset[WorkflowId]]

_MESSAGE_WIDTH: Final = len(NewMessage._fields)

_SEND_NUMBERS: Final = CHECKPOINT_NUMBERS | {10, 16, 17}
"""Whole numbers among the fields of a caller, its place, and those of a message, its place and
whether it is for forks."""

_RECEIVE_NUMBERS: Final = CHECKPOINT_NUMBERS | {13, 18, 19, 21}
"""The same of a step, its topic, and a time limit and its place."""


class Messages(Concern):
    """`MessageStore`."""

    async def send(self, items: Sequence[Sending]) -> list[SendAnswer]:
        """See `perdure.ports.store.MessageStore.send`."""
        return await in_waves(items, _sending_keys, self._send)

    async def _send(self, items: Sequence[Sending]) -> list[SendAnswer]:
        if _is_alone(items):
            (message,) = items[0].messages
            offset_ms = self._database.offset_ms
            if await self._database.hot("send", "send_alone", *message, offset_ms):
                return [WRITTEN]
            return await self._send_reasons(items)
        query = "send_to_forks" if any(item.to_forks for item in items) else "send"
        columns = _send_columns(items, self._application, self._database.offset_ms)
        (row,) = await self._database.hot("send", query, *columns)
        if row["places"] is None:
            return [WRITTEN] * len(items)
        written = {int(place) for place in row["places"]}
        left = [item for place, item in enumerate(items, 1) if place not in written]
        reasons = iter(await self._send_reasons(left))
        return [
            WRITTEN if place in written else next(reasons) for place in range(1, len(items) + 1)
        ]

    async def _send_reasons(self, items: Sequence[Sending]) -> list[SendAnswer]:
        """Why these were not written."""
        callers = [item.caller for item in items if item.caller is not None]
        of_callers = iter(
            await step_answers(self._database, "send", callers, [False] * len(callers))
        )
        asked = transposed(
            [(each.message_id, each.destination) for item in items for each in item.messages], 2
        )
        standing = iter(
            await self._database.hot("send", "standing_messages", *packed_columns(asked))
        )
        return [
            _send_verdict(
                [(message, next(standing)) for message in item.messages],
                None if item.caller is None else next(of_callers),
            )
            for item in items
        ]

    async def receive(self, items: Sequence[Receiving]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.MessageStore.receive`."""
        return await in_waves(items, _receiving_keys, self._receive)

    async def _receive(self, items: Sequence[Receiving]) -> list[Answer[StepRow]]:
        offset_ms = self._database.offset_ms
        if len(items) == 1 and items[0].deadline is None:
            query = "receive_alone"
            asked = _receive_parameters(items[0], self._application, offset_ms)
        else:
            query = "receive"
            asked = _receive_columns(items, self._application, offset_ms)
        rows_found = await self._database.hot("receive", query, *asked)
        found = {int(row["place"]): row for row in rows_found}
        if len(found) == len(items):
            return [_received(item, found[place]) for place, item in enumerate(items, 1)]
        left = [step_place(item.taken) for place, item in enumerate(items, 1) if place not in found]
        standing = iter(await standing_steps(self._database, "receive", left))
        return [
            _received(item, found[place]) if place in found else _repeated(item, next(standing))
            for place, item in enumerate(items, 1)
        ]

    async def topics_with_messages(self, topics: Sequence[Topic]) -> list[Topic]:
        """See `perdure.ports.store.MessageStore.topics_with_messages`."""
        if not topics:
            return []
        asked = list(dict.fromkeys(topics))
        found = await self._database.kept("topics_with_messages", *packed(asked))
        return [asked[row["place"] - 1] for row in found]


def _sending_keys(item: Sending) -> Iterable[Hashable]:
    for message in item.messages:
        yield message.message_id
    if item.caller is not None:
        yield step_place(item.caller)


def _is_alone(items: Sequence[Sending]) -> bool:
    """Whether it is one message to one workflow, and no step's."""
    if len(items) > 1:
        return False
    (item,) = items
    return item.caller is None and len(item.messages) == 1 and not item.to_forks


def _send_columns(items: Sequence[Sending], application: str | None, offset_ms: int) -> list[Any]:
    """The parameters of `send`."""
    callers = [
        (*item.caller, place) for place, item in enumerate(items, 1) if item.caller is not None
    ]
    messages = [
        (*message, place, int(item.to_forks))
        for place, item in enumerate(items, 1)
        for message in item.messages
    ]
    columns = [
        *transposed(callers, CHECKPOINT_WIDTH + 1),
        *transposed(messages, _MESSAGE_WIDTH + 2),
    ]
    packed_ones = with_application(packed_columns(columns, _SEND_NUMBERS), application, offset_ms)
    return [*packed_ones, len(items)]


def _receiving_keys(item: Receiving) -> Iterable[Hashable]:
    yield step_place(item.taken)
    if item.deadline is not None:
        yield step_place(item.deadline)


def _receive_parameters(item: Receiving, application: str | None, offset_ms: int) -> list[Any]:
    """The parameters of `receive_alone`."""
    taken = item.taken
    return [
        taken.workflow_id,
        taken.owner,
        taken.step_id,
        taken.name,
        taken.started_at_ms,
        taken.completed_at_ms,
        item.topic,
        application,
        offset_ms,
    ]


def _receive_columns(
    items: Sequence[Receiving], application: str | None, offset_ms: int
) -> list[Any]:
    """The parameters of `receive`."""
    steps = [(*item.taken, item.topic) for item in items]
    deadlines = [
        (*item.deadline, place) for place, item in enumerate(items, 1) if item.deadline is not None
    ]
    columns = [*zip(*steps, strict=True), *transposed(deadlines, CHECKPOINT_WIDTH + 1)]
    return with_application(packed_columns(columns, _RECEIVE_NUMBERS), application, offset_ms)


def _send_verdict(
    standing: Sequence[tuple[NewMessage, Record]], of_caller: Answer[StepRow] | None
) -> SendAnswer:
    if of_caller is not None and of_caller.kind in {AnswerKind.MINE, AnswerKind.CONFLICT}:
        return of_caller
    if of_caller is None and all(row["message_stands"] for _, row in standing):
        return MINE
    missing = {message.destination for message, row in standing if not row["workflow_stands"]}
    if missing:
        return Answer(AnswerKind.CONFLICT, frozenset(missing))
    # Without a caller it is a destination that was locked, or has come meanwhile.
    return BUSY if of_caller is None else of_caller


def _received(item: Receiving, row: Record) -> Answer[StepRow]:
    if not row["was_received"]:
        return WRITTEN
    taken: Checkpoint = item.taken._replace(
        output=row["output"], serialization=row["serialization"]
    )
    return Answer(AnswerKind.WRITTEN, rows.recorded_step(taken))


def _repeated(item: Receiving, row: Record) -> Answer[StepRow]:
    """Why nothing was tried: any row of the step's name is a repeated try's."""
    if row["workflow_uuid"] is None:
        return held_up(row, item.taken.owner)
    is_mine = row["function_name"] == item.taken.name
    return Answer(AnswerKind.MINE if is_mine else AnswerKind.CONFLICT, rows.step_row(row))
