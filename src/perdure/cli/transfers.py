"""`perdure workflow export | import`."""

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure.cli.asking import Asker, ask, of_everybody
from perdure.cli.choosing import Children, Choice, choice
from perdure.cli.sharing import sharing
from perdure.cli.wording import printable
from perdure.errors import ConfigurationError, PerdureError, WorkflowIdInUse
from perdure.logic.phrases import plural

_STREAM = "-"
_GAP = re.compile(r"\s*")


class OnConflict(StrEnum):
    """What happens where a workflow of the same id stands."""

    REFUSE = "refuse"
    SKIP = "skip"


@sharing(choice)
def export_workflows(
    chosen: Choice,
    *,
    children: Children = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A new file to write to, instead of standard output."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON array, instead of a line for each workflow.")
    ] = False,
) -> None:
    """Print workflows as documents, with all that belongs to them. They stay in the database."""
    if out is not None and out.exists():
        raise PerdureError(f"{str(out)!r} exists: export to a new file")
    ids = [row.workflow_id for row in chosen.find()]
    documents = ask(chosen.client, lambda opened: opened.workflows.export(ids, children=children))
    if as_json:
        text = json.dumps(documents, indent=2) + "\n"
    else:
        text = "".join(json.dumps(document) + "\n" for document in documents)
    if out is None:
        sys.stdout.write(text)
        return
    unfinished = out.with_name(out.name + ".part")
    unfinished.write_text(text, encoding="ascii")
    unfinished.replace(out)
    print(f"exported: {plural(len(documents), 'workflow')} to {str(out)!r}", file=sys.stderr)


@sharing(of_everybody, last=True)
def import_workflows(
    asker: Asker,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What `export` wrote; - is standard input.")
    ],
    *,
    on_conflict: Annotated[
        OnConflict,
        typer.Option(help="Whether a workflow whose id stands is refused, or passed over."),
    ] = OnConflict.REFUSE,
) -> None:
    """Bring exported workflows into a database, all or none; those without outcome go on there."""
    content = sys.stdin.buffer.read() if file == _STREAM else Path(file).read_bytes()
    documents = _documents(content, file)
    skip = on_conflict is OnConflict.SKIP
    try:
        done = asker.ask(lambda opened: opened.workflows.import_(documents, skip_existing=skip))
    except WorkflowIdInUse as error:
        raise PerdureError(
            f"{error}, so that nothing was imported; with --on-conflict skip it is left as it is, "
            "and the others are imported"
        ) from error
    written = set(done)
    left = [each["workflow"]["workflow_id"] for each in documents]
    left = [each for each in left if each not in written]
    if asker.as_json:
        from perdure.cli.documents import print_json

        print_json({"imported": done, "left": left})
        return
    print(f"imported: {plural(len(done), 'workflow')}")
    if left:
        print(f"left alone: {plural(len(left), 'workflow')} whose ids stand already")


def _documents(content: bytes, file: str) -> list[Any]:
    """What a file holds: an array of documents, or one behind the other."""
    decoder, found = json.JSONDecoder(), []
    try:
        text = content.decode("utf-8-sig").strip()
        place = 0
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            found += value if isinstance(value, list) else [value]
            gap = _GAP.match(text, place)
            place = place if gap is None else gap.end()
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{printable(file)!r} holds no JSON that `perdure workflow export` wrote: {error}"
        ) from error
    if not found:
        raise ConfigurationError(f"{printable(file)!r} holds no workflow")
    return found
