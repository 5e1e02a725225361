"""`perdure workflow list | count | get | steps | tree | explain`."""

from typing import Annotated

import typer

from perdure.api.client import Client
from perdure.api.filters import MOST_ROWS, ListOptions
from perdure.api.pages import Page
from perdure.cli.asking import ask
from perdure.cli.counts import count_workflows
from perdure.cli.filters import (
    AnyApp,
    Attributes,
    CompletedSince,
    CompletedUntil,
    Executors,
    Names,
    Parent,
    Prefixes,
    Queues,
    Since,
    States,
    Until,
    Versions,
    attributes_of,
)
from perdure.cli.options import (
    APP_DEFAULT,
    SCHEMA_DEFAULT,
    App,
    Database,
    Json,
    Schema,
    required,
)
from perdure.cli.wording import printable
from perdure.model.workflow import WorkflowRow

workflows = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the workflows of a database, their recorded steps, and why one waits.",
)

workflows.command("count")(count_workflows)

WorkflowIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]


@workflows.command("list")
def list_workflows(
    *,
    state: States = None,
    name: Names = None,
    queue: Queues = None,
    queued: Annotated[
        bool, typer.Option("--queued", help="Only what waits or runs on a queue.")
    ] = False,
    version: Versions = None,
    executor: Executors = None,
    id_prefix: Prefixes = None,
    parent: Parent = None,
    attribute: Attributes = None,
    since: Since = None,
    until: Until = None,
    completed_since: CompletedSince = None,
    completed_until: CompletedUntil = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="How many at most.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Go on where a list before ended.")
    ] = None,
    newest: Annotated[
        bool, typer.Option("--newest/--oldest", help="Which to list first, by creation.")
    ] = True,
    any_app: AnyApp = False,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    app: App = APP_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the application's workflows, the newest first."""
    options = ListOptions(
        states=state or None,
        names=name or None,
        queues=queue or None,
        queued=queued or None,
        versions=version or None,
        executors=executor or None,
        id_prefixes=id_prefix or None,
        parents=parent,
        attributes=attributes_of(attribute),
        created_from=since,
        created_to=until,
        completed_from=completed_since,
        completed_to=completed_until,
        any_application=any_app or None,
        newest_first=newest,
        limit=limit,
        after=after,
        with_inputs=as_json,
        with_outputs=as_json,
    )
    page = ask(
        Client(required(database), name=app, schema=schema),
        lambda client: client.workflows.list(**options),
    )
    _print_page(page, None if any_app else app, as_json=as_json)


def _print_page(page: Page[WorkflowRow, str], app: str | None, *, as_json: bool) -> None:
    """Print the workflows, and where the others begin."""
    if as_json:
        from perdure.cli.documents import print_workflows

        print_workflows(page)
    else:
        from perdure.cli.tables import print_workflow_table

        print_workflow_table(page, app)
    if page.next is not None:
        typer.echo(
            f"There are more than these {len(page):,}: choose with --limit, or go on with "
            f"--after {printable(page.next)}",
            err=True,
        )


@workflows.command("get")
def get_workflow(
    workflow_id: WorkflowIdArgument,
    *,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show everything about one workflow, of whichever application."""
    row = ask(
        Client(required(database), schema=schema),
        lambda client: client.workflows.get(workflow_id, with_payloads=True),
    )
    if as_json:
        from perdure.cli.documents import print_workflow

        print_workflow(row)
    else:
        from perdure.cli.tables import print_workflow_details

        print_workflow_details(row)


@workflows.command("steps")
def list_steps(
    workflow_id: WorkflowIdArgument,
    *,
    limit: Annotated[
        int | None, typer.Option(min=1, max=MOST_ROWS, help="How many at most; else all.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="STEP", help="Only behind this one.")
    ] = None,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the recorded steps of one workflow."""
    page = ask(
        Client(required(database), schema=schema),
        lambda client: client.workflows.steps(workflow_id, after=after, limit=limit),
    )
    if as_json:
        from perdure.cli.documents import print_steps

        print_steps(page)
    else:
        from perdure.cli.tables import print_step_table

        print_step_table(page, workflow_id)
    if page.next is not None:
        typer.echo(f"There are more: go on with --after {page.next}", err=True)


@workflows.command("tree")
def show_tree(
    workflow_id: WorkflowIdArgument,
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_ROWS, help="How many descendants at most.")
    ] = 1000,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show a workflow with its children, their children and so on, each under its parent."""
    branches = ask(
        Client(required(database), schema=schema),
        lambda client: client.workflows.tree(workflow_id, limit=limit),
    )
    if as_json:
        from perdure.cli.documents import print_tree

        print_tree(branches)
    else:
        from perdure.cli.tables import print_tree_table

        print_tree_table(branches)


@workflows.command("explain")
def explain_workflow(
    workflow_id: WorkflowIdArgument,
    *,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    as_json: Json = False,
) -> None:
    """Say in one sentence why a workflow does not run, and what to do about it."""
    explanation = ask(
        Client(required(database), schema=schema),
        lambda client: client.workflows.explain(workflow_id),
    )
    if as_json:
        from perdure.cli.documents import print_explanation

        print_explanation(workflow_id, explanation)
    else:
        print(printable(explanation.text))
