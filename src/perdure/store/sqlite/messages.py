"""Sending messages to workflows, and taking them."""

from collections.abc import Iterator, Sequence

from perdure.model.answer import LOST, MINE, WRITTEN, Answer, AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.talk import NewMessage, Receiving, Sending, Topic
from perdure.model.workflow import StepRow
from perdure.store import rows
from perdure.store.sqlite.concern import Concern, packed
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.steps import in_the_way, insert_step, standing_step
from perdure.store.sqlite.transaction import Transaction

SendAnswer = Answer[StepRow | frozenset[WorkflowId]]

Lines = dict[Topic, int]
"""When the latest message of a topic was created. What a destination receives is in the order of
creation, of which several fit into a millisecond, so that this runs ahead of the clock."""


class Messages(Concern):
    """`MessageStore`."""

    async def send(self, items: Sequence[Sending]) -> list[SendAnswer]:
        """See `perdure.ports.store.MessageStore.send`."""

        def work(transaction: Transaction) -> list[SendAnswer]:
            lines: Lines = {}
            return [self._send(transaction, item, lines) for item in items]

        return await self._database.write(work)

    def _send(self, transaction: Transaction, item: Sending, lines: Lines) -> SendAnswer:
        queries = self._queries
        missing = frozenset(
            message.destination
            for message in item.messages
            if not transaction.row(queries["standing_workflow"], (message.destination,))
        )
        if item.caller is None:
            obstacle = self._all_sent(transaction, item.messages)
        else:
            obstacle = in_the_way(transaction, queries, item.caller)
        # That a destination does not exist is said also to who lost the run.
        if obstacle is not None and not (missing and obstacle.kind is AnswerKind.LOST):
            return obstacle
        if missing:
            return Answer(AnswerKind.CONFLICT, missing)
        if item.caller is not None:
            insert_step(transaction, queries, item.caller, self._application)
        for message in self._addressed(transaction, item):
            self._store_message(transaction, message, lines)
        return WRITTEN

    def _all_sent(
        self, transaction: Transaction, messages: Sequence[NewMessage]
    ) -> SendAnswer | None:
        """*mine* if every message stands."""
        statement = self._queries["standing_messages"]
        stand = all(transaction.row(statement, (message.message_id,)) for message in messages)
        return MINE if stand else None

    def _addressed(self, transaction: Transaction, item: Sending) -> Iterator[NewMessage]:
        """The messages of the item, one for each who gets them."""
        for message in item.messages:
            yield message
            if item.to_forks:
                destination = message.destination
                for (fork,) in transaction.rows(self._queries["forks"], (destination,)):
                    yield message._replace(message_id=_id_for(message, fork), destination=fork)

    def _store_message(self, transaction: Transaction, message: NewMessage, lines: Lines) -> None:
        line = Topic(message.destination, message.topic)
        if line not in lines:
            latest = transaction.rows(self._queries["latest_message"], line)[0]["created_at"]
            lines[line] = transaction.now_ms - 1 if latest is None else latest
        created_ms = lines[line] = max(transaction.now_ms, lines[line] + 1)
        transaction.change(self._queries["insert_message"], (*message, created_ms))

    async def receive(self, items: Sequence[Receiving]) -> list[Answer[StepRow]]:
        """See `perdure.ports.store.MessageStore.receive`."""
        return await self._database.write(
            lambda transaction: [self._receive(transaction, item) for item in items]
        )

    def _receive(self, transaction: Transaction, item: Receiving) -> Answer[StepRow]:
        queries, step = self._queries, item.taken
        standing = standing_step(transaction, queries, step)
        if standing is not None:
            # Any row of the step's name is a repeated try's, whatever was received.
            is_mine = standing.name == step.name
            return Answer(AnswerKind.MINE if is_mine else AnswerKind.CONFLICT, standing)
        if not transaction.row(queries["owned_run"], (step.workflow_id, step.owner)):
            return LOST
        message = transaction.row(queries["oldest_message"], (step.workflow_id, item.topic))
        if message is None:
            return WRITTEN
        transaction.change(queries["consume_message"], (message["message_uuid"], step.step_id))
        taken = step._replace(output=message["message"], serialization=message["serialization"])
        insert_step(transaction, queries, taken, self._application)
        if item.deadline is not None:
            insert_step(transaction, queries, item.deadline, self._application)
        return Answer(AnswerKind.WRITTEN, rows.recorded_step(taken))

    async def topics_with_messages(self, topics: Sequence[Topic]) -> list[Topic]:
        """See `perdure.ports.store.MessageStore.topics_with_messages`."""
        asked = list(dict.fromkeys(topics))

        def work(connection: Connection) -> list[Topic]:
            found = connection.rows(
                self._queries["topics_with_messages"], {"topics": packed(asked)}
            )
            return [asked[row["place"]] for row in found]

        return await self._database.read(work)


def _id_for(message: NewMessage, fork: str) -> str:
    """The id of the message for a fork of its destination: it ends with who gets it."""
    return f"{message.message_id.removesuffix(f'::{message.destination}')}::{fork}"
