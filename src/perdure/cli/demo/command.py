"""`perdure demo`."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli.options import Json

Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        "-w",
        metavar="N",
        min=1,
        help="How many processes share the files, this one among them.",
    ),
]


def demo(
    folder: Annotated[
        Path,
        typer.Argument(exists=True, file_okay=False, metavar="FOLDER", help="What to archive."),
    ],
    *,
    out: Annotated[
        Path,
        typer.Option(file_okay=False, metavar="FOLDER", help="Where the archive goes."),
    ],
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            "-d",
            metavar="URL",
            help="The database of the run; by default a SQLite file in the archive's folder.",
        ),
    ] = None,
    workers: Workers = 1,
    again: Annotated[
        bool, typer.Option("--again", help="Make the archive anew although it is complete.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Archive every file of a folder durably: kill it at any time and start it again.

    Each file is compressed, verified and recorded by a workflow of its own, which goes through a
    queue. The same command goes on where it stopped, and does no recorded work twice; so do the
    other processes when one of several is killed. Exit code 1 says that some files could
    not be archived; they are listed.
    """
    from perdure.cli.demo.display import display_on, progress_stream
    from perdure.cli.demo.places import check_shareable, places, prepare
    from perdure.cli.demo.report import document, text
    from perdure.cli.demo.session import archive
    from perdure.cli.documents import print_json

    where = places(folder, out, database)
    check_shareable(where, workers)
    prepare(where)
    try:
        with display_on(progress_stream(as_json=as_json)) as display:
            result = asyncio.run(archive(where, display, processes=workers, again=again))
    except KeyboardInterrupt:
        print("perdure: stopped; the same command goes on with it", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(document(where, result))
    else:
        print(text(where, result))
    if result.summary.failed:
        raise typer.Exit(1)


INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended."""
