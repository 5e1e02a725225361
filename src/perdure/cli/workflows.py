"""`perdure workflow list | get | steps`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from perdure.api.client import Client
from perdure.api.management import Workflows
from perdure.cli.options import (
    APP_DEFAULT,
    SCHEMA_DEFAULT,
    App,
    Database,
    Json,
    Schema,
    required,
)
from perdure.model.status import WorkflowState
from perdure.model.workflow import StepRow, WorkflowRow

T = TypeVar("T")

workflows = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the workflows of a database and their recorded steps.",
)

WorkflowIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]


@workflows.command("list")
def list_workflows(
    *,
    state: Annotated[
        list[WorkflowState] | None,
        typer.Option(case_sensitive=False, help="Only in this state; may be repeated."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Only of this function; may be repeated.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="Only of this queue; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    newest: Annotated[
        bool, typer.Option("--newest/--oldest", help="Which to list first, by creation.")
    ] = True,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    app: App = APP_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the application's workflows, the newest first."""

    async def ask(found: Workflows) -> list[WorkflowRow]:
        return await found.list(
            states=state or (),
            names=name or (),
            queues=queue or (),
            newest_first=newest,
            limit=limit + 1,
            with_payloads=as_json,
        )

    rows = _ask(Client(required(database), name=app, schema=schema), ask)
    shown = rows[:limit]
    if as_json:
        from perdure.cli.documents import print_workflows

        print_workflows(shown)
    else:
        from perdure.cli.tables import print_workflow_table

        print_workflow_table(shown, app)
    if len(rows) > limit:
        typer.echo(f"There are more than these {limit:,}: choose with --limit.", err=True)


@workflows.command("get")
def get_workflow(
    workflow_id: WorkflowIdArgument,
    *,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show everything about one workflow, of whichever application."""

    async def ask(found: Workflows) -> WorkflowRow:
        return await found.get(workflow_id, with_payloads=True)

    row = _ask(Client(required(database), schema=schema), ask)
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
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the recorded steps of one workflow."""

    async def ask(found: Workflows) -> list[StepRow]:
        return await found.steps(workflow_id)

    steps = _ask(Client(required(database), schema=schema), ask)
    if as_json:
        from perdure.cli.documents import print_steps

        print_steps(steps)
    else:
        from perdure.cli.tables import print_step_table

        print_step_table(steps, workflow_id)


def _ask(client: Client, question: Callable[[Workflows], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with client:
            return await question(client.workflows)

    return asyncio.run(ask())
