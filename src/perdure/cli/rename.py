"""`perdure rename`."""

from typing import Annotated

import typer

from perdure.api.client import Client
from perdure.cli.asking import Asker, of_everybody
from perdure.cli.sharing import sharing
from perdure.logic.phrases import plural
from perdure.model.application import Moved


@sharing(of_everybody, last=True)
def rename(
    asker: Asker,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The name that is given up.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name that owns it all then.")],
    *,
    unclaimed: Annotated[
        bool, typer.Option("--unclaimed", help="Take what no application owns as well.")
    ] = False,
    batch: Annotated[
        int,
        typer.Option(min=1, max=100_000, metavar="N", help="Workflows of one transaction."),
    ] = 10_000,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Give everything that the application OLD owns to NEW. Stop the processes of OLD first."""
    if not yes:
        also = " and what no application owns" if unclaimed else ""
        typer.confirm(f"Give all that {old!r} owns{also} to {new!r}?", abort=True, err=True)

    async def give(opened: Client) -> Moved:
        return await opened.rename_application(old, new, unclaimed=unclaimed, batch=batch)

    moved = asker.ask(give)
    if asker.as_json:
        from perdure.cli.documents import print_json

        print_json(moved._asdict())
    else:
        owned = ", ".join(
            plural(number, what.removesuffix("s")) for what, number in moved._asdict().items()
        )
        print(f"{new!r} owns now what was of {old!r}: {owned}")
