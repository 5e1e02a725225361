"""The program: its commands, its global options, and what it says when something fails."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from perdure.cli.demo.command import demo
from perdure.cli.migrate import migrate
from perdure.cli.purge import purge
from perdure.cli.queues import queues
from perdure.cli.rename import rename
from perdure.cli.versions import versions
from perdure.cli.workflows import workflows
from perdure.errors import ConfigurationError, PerdureError, UsageError

FAILED = 1
WRONG_USE = 2


class Program(TyperGroup):
    """Turns an exception into one sentence and an exit code: 1 it failed, 2 it was used wrongly.

    With `--debug` the exception leaves as it is, with its traceback.
    """

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            message = _message(error)
            if message is None or ctx.params.get("debug"):
                raise
            print(f"perdure: {message}", file=sys.stderr)
            wrong = isinstance(error, ConfigurationError | UsageError)
            raise typer.Exit(WRONG_USE if wrong else FAILED) from error


def _message(error: Exception) -> str | None:
    """The sentence for an error, None for what is not one: the parser's own exits."""
    if isinstance(error, PerdureError):
        return str(error)
    if isinstance(error, BrokenPipeError):
        return None
    if isinstance(error, OSError):
        return str(error)
    if type(error).__module__.startswith(("typer", "click")):
        return None
    return f"internal error, {type(error).__name__}: {error}; `perdure --debug …` shows where"


program = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Durable workflows and queues on Postgres and SQLite: migrate a database, look at "
    "workflows and queues, and archive a folder as a demonstration.",
)
program.command()(demo)
program.command()(migrate)
program.command()(purge)
program.command()(rename)
program.add_typer(workflows, name="workflow")
program.add_typer(queues, name="queue")
program.add_typer(versions, name="version")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - the parser calls it
    if wanted:
        from importlib.metadata import version

        print(f"perdure {version('perdure')}")
        raise typer.Exit


@program.callback()
def global_options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options before the command; `Program` reads them."""
    del version, debug
