"""Options that several commands take."""

from typing import Annotated

import typer

from perdure.config import DEFAULT_NAME
from perdure.errors import ConfigurationError
from perdure.model.wire import DATABASE_URL_ENV, DEFAULT_SCHEMA

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        "-d",
        metavar="URL",
        envvar=DATABASE_URL_ENV,
        help="The database: postgresql://user@host/name or sqlite:///file.db.",
    ),
]

Schema = Annotated[
    str,
    typer.Option(metavar="NAME", help="The Postgres schema of the system tables."),
]

App = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The application whose workflows are meant: Engine(name=...)."
    ),
]

Json = Annotated[
    bool, typer.Option("--json", help="Print JSON, for machines, instead of text for people.")
]

WorkflowIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]

SCHEMA_DEFAULT = DEFAULT_SCHEMA
APP_DEFAULT = DEFAULT_NAME


def required(database: str | None) -> str:
    """The database's URL; raises if neither the option nor the environment names one."""
    if not database:
        raise ConfigurationError(
            f"no database: give --database URL (such as sqlite:///file.db), or set "
            f"{DATABASE_URL_ENV}"
        )
    return database
