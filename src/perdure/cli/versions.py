"""`perdure version list | promote | register`."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from perdure.api.client import Client
from perdure.api.versions import Versions
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
from perdure.model.version import VersionRow

versions = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the versions of an application, and roll forward or back to one.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The version's name.")]


@versions.command("list")
def list_versions(
    *,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    app: App = APP_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the registered versions, the latest first."""
    client = Client(required(database), name=app, schema=schema)
    rows = ask(client, lambda opened: opened.versions.list())
    if as_json:
        from perdure.cli.documents import print_versions

        print_versions(rows)
    else:
        from perdure.cli.tables import print_version_table

        print_version_table(rows, app)


@versions.command("promote")
def promote_version(
    name: NameArgument,
    *,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    app: App = APP_DEFAULT,
    as_json: Json = False,
) -> None:
    """Make a version the latest, which takes what bears no version: roll forward or back."""
    client = Client(required(database), name=app, schema=schema)
    _change(client, lambda found: found.promote(name), "is the latest", as_json=as_json)


@versions.command("register")
def register_version(
    name: NameArgument,
    *,
    database: Database = None,
    schema: Schema = SCHEMA_DEFAULT,
    app: App = APP_DEFAULT,
    as_json: Json = False,
) -> None:
    """Register a version before a process of it starts."""
    client = Client(required(database), name=app, schema=schema)
    _change(client, lambda found: found.register(name), "is registered", as_json=as_json)


def _change(
    client: Client,
    change: Callable[[Versions], Awaitable[VersionRow]],
    said: str,
    *,
    as_json: bool,
) -> None:
    """Change a version and say what is true now."""
    row = ask(client, lambda opened: change(opened.versions))
    if as_json:
        from perdure.cli.documents import print_version

        print_version(row)
    else:
        print(f"version {printable(row.name)!r} {said}, of application {row.application_name!r}")
