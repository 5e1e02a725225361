"""Stopping, continuing, copying, repairing and removing workflows."""

from typing import Protocol

from perdure.model.answer import Answer
from perdure.model.management import Caller, Command, Managed
from perdure.model.workflow import StepRow


class ManagementStore(Protocol):
    """Commands about workflows, whoever runs them; ids are found whatever their application is."""

    async def manage(
        self, command: Command, caller: Caller | None = None
    ) -> Answer[Managed | StepRow]:
        """Carry out a command, and record the step that gives it, in one transaction.

        The rows it concerns are locked in id order, the caller's run among them, before they are
        judged; a command that is refused changes nothing, and its refusal is recorded like any
        result. Needs no ownership of the rows: it takes it away from whoever runs them.

        Without a caller always *written*, with `standing` what came of it. With one: *written* the
        same, the step's row inserted as `caller.record` made it; *mine*: the step id holds a row of
        that name, a repeated try's, which `standing` shows, and nothing is done again; *conflict*:
        it holds another, shown in `standing`; *lost* and *busy*: as for `StepStore.record`.

        Whatever the number of ids, the statements are few: one for each level of a tree, and one
        for each kind of row.

        `Cancel`: rows whose state is not SUCCESS or ERROR become CANCELLED: owner, queue name,
        deduplication id and start time NULL, `updated_at` and `completed_at` now; the attempts,
        timeout, deadline and delay stay. Unknown ids are passed over. Descendants are found level
        by level, below ended workflows too, each level after the one above was cancelled, so that a
        child that is started meanwhile is either among them or not started.
        `Resume`: a missing id is refused (`WorkflowNotFound`). Rows whose state is not SUCCESS or
        ERROR become ENQUEUED on the queue: owner, start time, completion, deadline and
        deduplication id NULL, attempts 0, `updated_at` now; the timeout, the partition key and the
        version stay.
        `Delete`: the row with its input, output, steps, events, streams and messages, and what our
        own schema holds of its streams. `WorkflowBusy` if the caller's own run is among those to be
        removed, descendants included.
        `SetDelay`: `delay_until` and `updated_at` of DELAYED rows.
        `SetAttributes`: `attributes` and `updated_at`; a base that is no object counts as an empty
        one. `WorkflowNotFound` if there is no such row.
        `Bounce` and `Import`: as their docstrings say.

        `Fork`: refused if a source is missing (`WorkflowNotFound`), a fork's id stands already, or
        twice among the items (`WorkflowIdInUse`; not if a fork of that source stands under it, from
        a try before: that is left as it is), or the point is not found (`NoForkPoint`; a step id
        need not be recorded). The new row is ENQUEUED on the queue, `forked_from` its source, with
        the source's name, class, configuration, inputs, attributes, serialization, authentication
        and application (this one's where it has none), the given version, and nothing else of it.
        The steps below the point are copied with their times, children replaced as asked; so are
        the history of events below it and the newest value of each key there, and the stream values
        that were written by steps below it, numbered anew, with what our own schema holds of them.
        Messages are not. The source gets `was_forked_from` and nothing else.
        `Rewind`: `WorkflowNotFound`, or `WorkflowNotEnded` unless it is SUCCESS, ERROR, CANCELLED
        or MAX_RECOVERY_ATTEMPTS_EXCEEDED, or `NoForkPoint`. Steps from the point on are removed;
        each event key becomes what it was below it, or is removed; stream values stay, but a close
        written from there on is removed, and steps from there on can append again; messages that
        were consumed from there on, or are not consumed, are removed, and so is the outcome, in
        whichever place. Then the row is ENQUEUED on the queue with the partition key, attempts 0,
        and owner, deadline, deduplication id, start, completion NULL, its creator the command's
        token; timeout, creation and version stay, unless a version is given. A workflow that bears
        the command's token was rewound by it, in a try before, and is left as it is.
        """
        ...
