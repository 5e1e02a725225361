"""Shows how far a run is: a bar on a terminal, a line now and then elsewhere."""

import logging
import sys
from types import TracebackType
from typing import Protocol, Self, TextIO

from perdure.cli.demo.tally import Tally
from perdure.cli.wording import printable, size


class Display(Protocol):
    """Where notes and progress go; a context manager."""

    interval_s: float
    """How often `show` is worth calling."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def note(self, text: str) -> None:
        """Say something that stays."""
        ...

    def show(self, settled: int, tally: Tally) -> None:
        """Show progress: `settled` files of the tally's total are done."""
        ...


def display_on(stream: TextIO) -> Display:
    """What suits the stream."""
    return Bar(stream) if stream.isatty() else Lines(stream)


class Lines:
    """Plain lines, for files, pipes and dumb readers."""

    interval_s = 2.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def note(self, text: str) -> None:
        """Print the line."""
        print(printable(text), file=self._stream, flush=True)

    def show(self, settled: int, tally: Tally) -> None:
        """Print a line once the total is known."""
        if tally.total is not None:
            self.note(f"{settled:,} of {tally.total:,} files, {_speed(tally)}")


class Bar:
    """A progress bar that is drawn again in its place; notes appear above it."""

    interval_s = 0.2

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._progress = Progress(
            BarColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task("looking at the folder", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        """Print the line above the bar."""
        self._console.print(printable(text), soft_wrap=True)

    def show(self, settled: int, tally: Tally) -> None:
        """Draw the bar."""
        if tally.total is not None:
            text = f"{settled:,} of {tally.total:,} files, {_speed(tally)}"
            self._progress.update(
                self._task, total=tally.total, completed=settled, description=text
            )
        self._progress.refresh()


class NoteHandler(logging.Handler):
    """Shows what the engine warns about among the notes, while the `with` lasts."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record; its traceback, if any, is left to `--debug`."""
        try:
            self._display.note(f"perdure: {record.getMessage()}")
        except Exception:  # noqa: BLE001 - as logging has it: a message must not stop the work
            self.handleError(record)

    def __enter__(self) -> Self:
        logging.getLogger("perdure").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("perdure").removeHandler(self)


def _speed(tally: Tally) -> str:
    return f"{size(tally.size)} read, {tally.rate:,.0f} files/s"


def progress_stream(*, as_json: bool) -> TextIO:
    """Standard output, unless that is kept for a document."""
    return sys.stderr if as_json else sys.stdout
