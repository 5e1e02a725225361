"""`perdure version list | promote | register`."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from perdure.api.versions import Versions
from perdure.cli.asking import Asker, of_application
from perdure.cli.sharing import sharing
from perdure.cli.wording import printable
from perdure.model.version import VersionRow

versions = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the versions of an application, and roll forward or back to one.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The version's name.")]


@versions.command("list")
@sharing(of_application, last=True)
def list_versions(asker: Asker) -> None:
    """List the registered versions, the latest first."""
    rows = asker.ask(lambda opened: opened.versions.list())
    if asker.as_json:
        from perdure.cli.documents import print_versions

        print_versions(rows)
    else:
        from perdure.cli.tables import print_version_table

        print_version_table(rows, asker.app)


@versions.command("promote")
@sharing(of_application, last=True)
def promote_version(asker: Asker, name: NameArgument) -> None:
    """Make a version the latest, which takes what bears no version: roll forward or back."""
    _change(asker, lambda found: found.promote(name), "is the latest")


@versions.command("register")
@sharing(of_application, last=True)
def register_version(asker: Asker, name: NameArgument) -> None:
    """Register a version before a process of it starts."""
    _change(asker, lambda found: found.register(name), "is registered")


def _change(asker: Asker, change: Callable[[Versions], Awaitable[VersionRow]], said: str) -> None:
    """Change a version and say what is true now."""
    row = asker.ask(lambda opened: change(opened.versions))
    if asker.as_json:
        from perdure.cli.documents import print_version

        print_version(row)
    else:
        print(f"version {printable(row.name)!r} {said}, of application {row.application_name!r}")
