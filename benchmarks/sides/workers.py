"""Worker processes that a program starts and ends."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def workers(count: int, program: Path, *arguments: str) -> Iterator[None]:
    """That many processes of a program, each of which has printed its first line."""
    processes = [
        subprocess.Popen([sys.executable, str(program), *arguments], stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    try:
        for process in processes:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError(f"{program.name} ended before it was ready")
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
