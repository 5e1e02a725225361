"""Which workflows a command is for: named by their ids, or all that meet conditions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from perdure.api.client import Client
from perdure.api.filters import MOST_ROWS, FilterOptions
from perdure.api.pages import Page
from perdure.cli.asking import application, ask
from perdure.cli.filters import conditions
from perdure.cli.sharing import sharing
from perdure.cli.wording import printable
from perdure.errors import ConfigurationError, WorkflowNotFound
from perdure.logic.phrases import plural
from perdure.model.workflow import WorkflowRow

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

Children = Annotated[
    bool, typer.Option("--children", help="All their descendants too, whatever these are.")
]


@dataclass(frozen=True, slots=True)
class Choice:
    """What was said about which workflows are meant, and where they are."""

    client: Client
    ids: tuple[str, ...]
    filters: FilterOptions
    limit: int
    newest: bool

    def find(self) -> Page[WorkflowRow, str]:
        """The workflows, those named in the order given; raises `WorkflowNotFound`."""
        page = ask(self.client, self._look)
        if page.next is not None:
            typer.echo(f"There are more than these {len(page):,}: choose with --limit", err=True)
        if not page:
            anybody = self.filters.get("any_application")
            of = "" if anybody else f" of the application {self.client.config.name!r}"
            typer.echo(f"no workflows{of} match", err=True)
        return page

    async def _look(self, client: Client) -> Page[WorkflowRow, str]:
        if not self.ids:
            return await client.workflows.list(
                **self.filters, newest_first=self.newest, limit=self.limit
            )
        listed = await client.workflows.list(ids=self.ids, limit=len(self.ids))
        found: dict[str, WorkflowRow] = {row.workflow_id: row for row in listed}
        for workflow_id in self.ids:
            if workflow_id not in found:
                raise WorkflowNotFound(workflow_id)
        return Page(found[each] for each in self.ids)

    def confirm(
        self, verb: str, rows: Sequence[WorkflowRow], rest: str = "", *, careful: bool
    ) -> None:
        """Ask whether it is to be done, if it is done with care or to what conditions found."""
        if rows and (careful or not self.ids):
            typer.confirm(f"{verb} {_in_words(rows)}{rest}", abort=True, err=True)


@sharing(conditions)
@sharing(application, last=True)
def choice(
    client: Client,
    filters: FilterOptions,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="The workflows' ids; else give conditions."),
    ] = None,
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_ROWS, help="How many at most, of those that match.")
    ] = 1000,
    newest: Annotated[
        bool, typer.Option("--newest/--oldest", help="Which to choose then, by creation.")
    ] = True,
) -> Choice:
    """What the arguments and options choose; raises `ConfigurationError` if that is unclear."""
    narrowed = any(
        value is not None for name, value in filters.items() if name != "any_application"
    )
    if ids and narrowed:
        raise ConfigurationError("give ids, or conditions such as --state, not both")
    if not ids and not narrowed:
        raise ConfigurationError(
            "say which workflows: by their ids, or by conditions such as --state ERROR --since 2h"
        )
    return Choice(client, tuple(dict.fromkeys(ids or ())), filters, limit, newest)


def _in_words(rows: Sequence[WorkflowRow]) -> str:
    """`workflow 'a' (ERROR)`, `3 workflows (2 ERROR, 1 CANCELLED)`."""
    if len(rows) == 1:
        return f"workflow {printable(rows[0].workflow_id)!r} ({rows[0].state})"
    states = Counter(row.state for row in rows).most_common()
    numbers = ", ".join(f"{number:,} {state}" for state, number in states)
    return f"{plural(len(rows), 'workflow')} ({numbers})"
