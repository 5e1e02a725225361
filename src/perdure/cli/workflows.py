"""`perdure workflow list | get | steps | tree | explain`, and where the other commands are."""

from collections.abc import Callable
from typing import Annotated

import typer

from perdure.api.filters import MOST_ROWS, FilterOptions, ListOptions
from perdure.api.pages import Page
from perdure.cli.asking import Asker, of_application, of_everybody
from perdure.cli.commands import (
    cancel_workflows,
    delay_workflows,
    delete_workflows,
    fork_workflows,
    resume_workflows,
    rewind_workflows,
    set_attributes,
)
from perdure.cli.counts import count_steps, count_workflows
from perdure.cli.filters import conditions
from perdure.cli.options import WorkflowIdArgument
from perdure.cli.sharing import sharing
from perdure.cli.talk import list_events, list_messages, show_streams
from perdure.cli.transfers import export_workflows, import_workflows
from perdure.cli.wording import printable
from perdure.model.workflow import WorkflowRow

workflows = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the workflows of a database; stop, continue, repair, move and remove them.",
)


@workflows.command("list")
@sharing(conditions)
@sharing(of_application, last=True)
def list_workflows(
    asker: Asker,
    filters: FilterOptions,
    *,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="How many at most.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Go on where a list before ended.")
    ] = None,
    newest: Annotated[
        bool, typer.Option("--newest/--oldest", help="Which to list first, by creation.")
    ] = True,
) -> None:
    """List the application's workflows, the newest first."""
    options = ListOptions(
        **filters,
        newest_first=newest,
        limit=limit,
        after=after,
        with_inputs=asker.as_json,
        with_outputs=asker.as_json,
    )
    page = asker.ask(lambda client: client.workflows.list(**options))
    _print_page(page, None if filters.get("any_application") else asker.app, as_json=asker.as_json)


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
@sharing(of_everybody, last=True)
def get_workflow(asker: Asker, workflow_id: WorkflowIdArgument) -> None:
    """Show everything about one workflow, of whichever application."""
    row = asker.ask(lambda client: client.workflows.get(workflow_id, with_payloads=True))
    if asker.as_json:
        from perdure.cli.documents import print_workflow

        print_workflow(row)
    else:
        from perdure.cli.tables import print_workflow_details

        print_workflow_details(row)


@workflows.command("steps")
@sharing(of_everybody, last=True)
def list_steps(
    asker: Asker,
    workflow_id: WorkflowIdArgument,
    *,
    limit: Annotated[
        int | None, typer.Option(min=1, max=MOST_ROWS, help="How many at most; else all.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="STEP", help="Only behind this one.")
    ] = None,
) -> None:
    """List the recorded steps of one workflow."""
    page = asker.ask(lambda client: client.workflows.steps(workflow_id, after=after, limit=limit))
    if asker.as_json:
        from perdure.cli.documents import print_steps

        print_steps(page)
    else:
        from perdure.cli.tables import print_step_table

        print_step_table(page, workflow_id)
    if page.next is not None:
        typer.echo(f"There are more: go on with --after {page.next}", err=True)


@workflows.command("tree")
@sharing(of_everybody, last=True)
def show_tree(
    asker: Asker,
    workflow_id: WorkflowIdArgument,
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_ROWS, help="How many descendants at most.")
    ] = 1000,
) -> None:
    """Show a workflow with its children, their children and so on, each under its parent."""
    branches = asker.ask(lambda client: client.workflows.tree(workflow_id, limit=limit))
    if asker.as_json:
        from perdure.cli.documents import print_tree

        print_tree(branches)
    else:
        from perdure.cli.tables import print_tree_table

        print_tree_table(branches)


@workflows.command("explain")
@sharing(of_everybody, last=True)
def explain_workflow(asker: Asker, workflow_id: WorkflowIdArgument) -> None:
    """Say in one sentence why a workflow does not run, and what to do about it."""
    explanation = asker.ask(lambda client: client.workflows.explain(workflow_id))
    if asker.as_json:
        from perdure.cli.documents import print_explanation

        print_explanation(workflow_id, explanation)
    else:
        print(printable(explanation.text))


_COMMANDS: dict[str, Callable[..., None]] = {
    "events": list_events,
    "streams": show_streams,
    "messages": list_messages,
    "count": count_workflows,
    "count-steps": count_steps,
    "cancel": cancel_workflows,
    "resume": resume_workflows,
    "fork": fork_workflows,
    "rewind": rewind_workflows,
    "delay": delay_workflows,
    "attributes": set_attributes,
    "delete": delete_workflows,
    "export": export_workflows,
    "import": import_workflows,
}
for _name, _command in _COMMANDS.items():
    workflows.command(_name)(_command)
