"""`perdure workflow list | get | steps | explain`."""

from typing import Annotated

import typer

from perdure.api.client import Client
from perdure.cli.asking import ask
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
from perdure.model.status import WorkflowState
from perdure.model.workflow import WorkflowRow

workflows = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the workflows of a database, their recorded steps, and why one waits.",
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

    async def look(client: Client) -> list[WorkflowRow]:
        return await client.workflows.list(
            states=state or None,
            names=name or None,
            queues=queue or None,
            newest_first=newest,
            limit=limit + 1,
            with_inputs=as_json,
            with_outputs=as_json,
        )

    rows = ask(Client(required(database), name=app, schema=schema), look)
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
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the recorded steps of one workflow."""
    steps = ask(
        Client(required(database), schema=schema),
        lambda client: client.workflows.steps(workflow_id),
    )
    if as_json:
        from perdure.cli.documents import print_steps

        print_steps(steps)
    else:
        from perdure.cli.tables import print_step_table

        print_step_table(steps, workflow_id)


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
