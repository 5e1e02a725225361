"""`perdure purge`."""

from typing import Annotated

import typer

from perdure.api.retention import PurgeOptions
from perdure.cli.asking import Asker, of_application
from perdure.cli.sharing import sharing
from perdure.cli.spans import Span, span
from perdure.errors import ConfigurationError
from perdure.logic.phrases import plural
from perdure.model.status import WorkflowState


@sharing(of_application, last=True)
def purge(
    asker: Asker,
    *,
    older_than: Annotated[
        Span | None,
        typer.Option(parser=span, metavar="SPAN", help="Ended longer ago, such as 12h or 30d."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Leave the N newest, whatever their age.")
    ] = None,
    state: Annotated[
        list[WorkflowState] | None,
        typer.Option(case_sensitive=False, help="Only ended so; may be repeated."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Only of this function; may be repeated.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Remove at most so many.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="How many in one transaction.")
    ] = 500,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> None:
    """Remove workflows that ended long ago, with all that belongs to them."""
    if older_than is None and keep is None:
        raise ConfigurationError("say what may go: --older-than SPAN, --keep N, or both")
    options = PurgeOptions(
        older_than=None if older_than is None else older_than.value,
        keep=keep,
        states=state or None,
        names=name or None,
        batch=batch,
        limit=limit,
    )
    if dry_run:
        _say("would_remove", _counted(asker, options), "would be removed", as_json=asker.as_json)
        return
    if not yes:
        found = _counted(asker, options)
        if found:
            question = f"Remove {plural(found, 'ended workflow')} of {asker.app!r} for ever?"
            typer.confirm(question, abort=True, err=True)
    removed = asker.ask(lambda opened: opened.workflows.purge(**options))
    _say("removed", removed, "removed", as_json=asker.as_json)


def _counted(asker: Asker, options: PurgeOptions) -> int:
    counting: PurgeOptions = {**options, "dry_run": True}
    return asker.ask(lambda opened: opened.workflows.purge(**counting))


def _say(key: str, number: int, done: str, *, as_json: bool) -> None:
    if as_json:
        from perdure.cli.documents import print_json

        print_json({key: number})
    else:
        print(f"{done}: {plural(number, 'ended workflow')}")
