"""`perdure workflow events | streams | messages`."""

from typing import Annotated

import typer

from perdure.api.filters import MOST_ROWS
from perdure.cli.asking import Asker, of_everybody
from perdure.cli.options import WorkflowIdArgument
from perdure.cli.sharing import sharing
from perdure.errors import ConfigurationError


@sharing(of_everybody, last=True)
def list_events(asker: Asker, workflow_id: WorkflowIdArgument) -> None:
    """List what one workflow has published, by key."""
    events = asker.ask(lambda client: client.workflows.events(workflow_id))
    if asker.as_json:
        from perdure.cli.documents import print_events

        print_events(events)
    else:
        from perdure.cli.tables import print_event_table

        print_event_table(events, workflow_id)


@sharing(of_everybody, last=True)
def show_streams(
    asker: Asker,
    workflow_id: WorkflowIdArgument,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The stream whose values are meant.")
    ] = None,
    *,
    offset: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Its values from this one on; else 0.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, max=MOST_ROWS, help="How many values at most; else 100.")
    ] = None,
) -> None:
    """List the streams of one workflow, or what is in one of them."""
    if key is not None:
        _show_stream(asker, workflow_id, key, offset or 0, limit or 100)
        return
    if offset is not None or limit is not None:
        raise ConfigurationError("--offset and --limit choose from one stream: give its KEY too")
    streams = asker.ask(lambda client: client.workflows.streams(workflow_id))
    if asker.as_json:
        from perdure.cli.documents import print_streams

        print_streams(streams)
    else:
        from perdure.cli.tables import print_streams_table

        print_streams_table(streams, workflow_id)


def _show_stream(asker: Asker, workflow_id: str, key: str, offset: int, limit: int) -> None:
    """Print a page of values, and where the others begin."""
    page = asker.ask(
        lambda client: client.workflows.stream(workflow_id, key, offset=offset, limit=limit)
    )
    if asker.as_json:
        from perdure.cli.documents import print_stream

        print_stream(page)
    else:
        from perdure.cli.tables import print_stream_table

        print_stream_table(page, workflow_id, key, offset)
    if page.next is not None:
        typer.echo(f"There are more: go on with --offset {page.next}", err=True)


@sharing(of_everybody, last=True)
def list_messages(
    asker: Asker,
    workflow_id: WorkflowIdArgument,
    *,
    unread: Annotated[
        bool, typer.Option("--unread", help="Only those that it has not received.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="How many at most.")] = 1000,
) -> None:
    """List the messages to one workflow, the oldest first."""
    messages = asker.ask(
        lambda client: client.workflows.messages(workflow_id, unread=unread, limit=limit)
    )
    if asker.as_json:
        from perdure.cli.documents import print_messages

        print_messages(messages)
    else:
        from perdure.cli.tables import print_message_table

        print_message_table(messages, workflow_id, unread=unread)
    if len(messages) == limit:
        typer.echo(f"There may be more than these {limit:,}: choose with --limit", err=True)
