"""`perdure queue list | get | set | pause | resume | delete`."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar, cast

import typer

from perdure.api.queue import QueueChanges
from perdure.api.queues import Queues
from perdure.cli.asking import Asker, of_application
from perdure.cli.limits import Limit, count, in_words, rate
from perdure.cli.sharing import sharing
from perdure.cli.wording import local_time
from perdure.errors import ConfigurationError
from perdure.logic.phrases import plural
from perdure.model.queue import QueueDepth, QueueRow

T = TypeVar("T")

Found = tuple[QueueRow, QueueDepth]

queues = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the queues of an application, change their limits, pause and resume them.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]


@queues.command("list")
@sharing(of_application, last=True)
def list_queues(asker: Asker) -> None:
    """List the registered queues: what is in them, how fast it ends, and their limits."""

    async def look(found: Queues) -> list[Found]:
        rows = {row.name: row for row in await found.list()}
        return [(rows[each.name], each) for each in await found.depths() if each.name in rows]

    listed = _ask(asker, look)
    if asker.as_json:
        from perdure.cli.documents import print_queues

        print_queues(listed)
    else:
        from perdure.cli.tables import print_queue_table

        print_queue_table(listed, asker.app)


@queues.command("get")
@sharing(of_application, last=True)
def get_queue(asker: Asker, name: NameArgument) -> None:
    """Show all settings of one queue and what is in it."""

    async def look(found: Queues) -> Found:
        return await found.get(name), await found.depth(name)

    row, depth = _ask(asker, look)
    if asker.as_json:
        from perdure.cli.documents import print_queue

        print_queue(row, depth)
    else:
        from perdure.cli.tables import print_queue_details

        print_queue_details(row, depth)


def _count(what: str) -> Any:
    return typer.Option(parser=count, metavar="N|none", help=what)


def _rate(what: str) -> Any:
    return typer.Option(parser=rate, metavar="N/SECONDS|none", help=what)


def _seconds(what: str) -> Any:
    return typer.Option(metavar="SECONDS", help=what)


WorkerConcurrency = Annotated[Limit | None, _count("How many of it run in one process.")]
GlobalConcurrency = Annotated[Limit | None, _count("How many of it run in all processes.")]
RateOption = Annotated[Limit | None, _rate("How many of it start within a time.")]
Priorities = Annotated[bool | None, typer.Option(help="Whether its workflows may have priorities.")]
Partitioned = Annotated[bool | None, typer.Option(help="Whether they have partition keys.")]
PartitionConcurrency = Annotated[Limit | None, _count("How many of one key in all processes.")]
PartitionWorkers = Annotated[Limit | None, _count("How many of one key in one process.")]
PartitionRate = Annotated[Limit | None, _rate("How many of one key start within a time.")]
BaseInterval = Annotated[float | None, _seconds("How soon processes look again for work.")]
MaxInterval = Annotated[float | None, _seconds("How rarely they look where there is none.")]


@queues.command("set")
@sharing(of_application, last=True)
def set_queue(
    asker: Asker,
    name: NameArgument,
    *,
    worker_concurrency: WorkerConcurrency = None,
    global_concurrency: GlobalConcurrency = None,
    rate_limit: RateOption = None,
    priority_enabled: Priorities = None,
    partitioned: Partitioned = None,
    partition_concurrency: PartitionConcurrency = None,
    partition_worker_concurrency: PartitionWorkers = None,
    partition_rate_limit: PartitionRate = None,
    base_polling_interval: BaseInterval = None,
    max_polling_interval: MaxInterval = None,
) -> None:
    """Change settings of a queue, by the names they are declared by. `none` lifts a limit.

    Running processes follow without a restart.
    """
    given = {
        "worker_concurrency": worker_concurrency,
        "global_concurrency": global_concurrency,
        "rate_limit": rate_limit,
        "priority_enabled": priority_enabled,
        "partitioned": partitioned,
        "partition_concurrency": partition_concurrency,
        "partition_worker_concurrency": partition_worker_concurrency,
        "partition_rate_limit": partition_rate_limit,
        "base_polling_interval": base_polling_interval,
        "max_polling_interval": max_polling_interval,
    }
    changes = {
        option: value.value if isinstance(value, Limit) else value
        for option, value in given.items()
        if value is not None
    }
    if not changes:
        raise ConfigurationError("say what to set, such as --worker-concurrency 5")
    said = ", ".join(f"{option} {in_words(option, value)}" for option, value in changes.items())
    _change(
        asker,
        lambda found: found.update(name, **cast("QueueChanges", changes)),
        lambda _: f"has {said}",
    )


@queues.command("pause")
@sharing(of_application, last=True)
def pause_queue(asker: Asker, name: NameArgument) -> None:
    """Let nothing more start from a queue; what runs goes on."""
    _change(
        asker,
        lambda found: found.pause(name),
        lambda row: f"is paused since {local_time(row.paused_at_ms)}",
    )


@queues.command("resume")
@sharing(of_application, last=True)
def resume_queue(asker: Asker, name: NameArgument) -> None:
    """Let a paused queue go on."""
    _change(asker, lambda found: found.resume(name), lambda _: "is served")


@queues.command("delete")
@sharing(of_application, last=True)
def delete_queue(
    asker: Asker,
    name: NameArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a queue. What waits in it stays, and nothing starts it."""

    async def look(found: Queues) -> QueueDepth:
        await found.get(name)
        return await found.depth(name)

    depth = _ask(asker, look)
    stranded = depth.enqueued + depth.delayed
    rest = (
        f"{plural(stranded, 'workflow waits', 'workflows wait')} in it until a queue of that name "
        "is registered again"
    )
    if not yes:
        typer.confirm(f"Delete queue {name!r}? {rest}.", abort=True, err=True)
    _ask(asker, lambda found: found.delete(name))
    if asker.as_json:
        from perdure.cli.documents import print_json

        print_json({"name": name, "stranded": stranded})
    else:
        print(f"queue {name!r} is deleted; {rest}")


def _change(
    asker: Asker,
    change: Callable[[Queues], Awaitable[QueueRow]],
    said: Callable[[QueueRow], str],
) -> None:
    """Change a queue and say what is true now."""

    async def work(found: Queues) -> Found:
        row = await change(found)
        return row, await found.depth(row.name)

    row, depth = _ask(asker, work)
    if asker.as_json:
        from perdure.cli.documents import print_queue

        print_queue(row, depth)
    else:
        waiting = plural(depth.enqueued, "workflow waits", "workflows wait")
        runs = "runs" if depth.pending == 1 else "run"
        print(f"queue {row.name!r} {said(row)}; {waiting} in it and {depth.pending:,} {runs}")


def _ask(asker: Asker, question: Callable[[Queues], Awaitable[T]]) -> T:
    """The answer about the application's queues."""
    return asker.ask(lambda opened: question(opened.queues))
