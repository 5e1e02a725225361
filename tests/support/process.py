"""Child processes that a test starts, watches, stops and kills, and that never outlive it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Self

from tests.support.waiting import DEADLINE_S, wait_until

PROJECT = Path(__file__).parents[2]
# The package of this tree, whichever one is installed.
_TREES = os.pathsep.join([str(PROJECT / "src"), str(PROJECT)])


class ChildFailed(AssertionError):
    """A child ended, or kept silent, where a test waited for it; shows what it printed."""


class ChildProcess:
    """A Python process: `ChildProcess("-m", "tests.acceptance.worker", url)`, or a script's path.

    It runs in the project's root, or in `cwd`, under this interpreter or `python`, with a process
    group of its own. Leaving the `with` block kills the group; so does the death of the test run,
    however it dies.
    """

    def __init__(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path = PROJECT,
        python: str | Path = sys.executable,
    ) -> None:
        environment = {**os.environ, "PYTHONPATH": _TREES, "PYTHONUNBUFFERED": "1"}
        # Without compiled modules a child spends its first seconds on compiling them.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._process = subprocess.Popen(
            [str(python), *map(str, arguments)],
            env={**environment, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        _REAPER.tell("+", self._process.pid)
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._error_lines: list[str] = []
        self._seen = 0
        self._readers = [
            self._read(self._process.stdout, self._lines),
            self._read(self._process.stderr, self._error_lines),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def lines(self) -> list[str]:
        """What it has printed so far, without line ends."""
        with self._changed:
            return list(self._lines)

    @property
    def errors(self) -> str:
        """What it has written to its standard error so far."""
        with self._changed:
            return "\n".join(self._error_lines)

    def wait_for(self, wanted: str | Callable[[str], bool], deadline_s: float = DEADLINE_S) -> str:
        """The next line that contains the text or satisfies the test.

        Lines are gone through once: a later wait begins after the line this one returns.
        """
        end = time.monotonic() + deadline_s
        with self._changed:
            while True:
                while self._seen < len(self._lines):
                    line = self._lines[self._seen]
                    self._seen += 1
                    if wanted in line if isinstance(wanted, str) else wanted(line):
                        return line
                left = end - time.monotonic()
                if left <= 0 or not self._readers[0].is_alive():
                    raise ChildFailed(self._report(f"never printed {wanted!r}"))
                self._changed.wait(min(left, 0.5))

    async def reaches(
        self, wanted: str | Callable[[str], bool], deadline_s: float = DEADLINE_S
    ) -> str:
        """`wait_for`, while the event loop goes on."""
        return await asyncio.to_thread(self.wait_for, wanted, deadline_s)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: returns when it stands still, and it does not know."""
        self._signal(signal.SIGSTOP)
        wait_until(lambda: process_state(self.pid) == "T")

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, as an orderly stop asks for it."""
        self._signal(signal.SIGTERM)

    def interrupt(self) -> None:
        """SIGINT, as Ctrl-C sends it."""
        self._signal(signal.SIGINT)

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code, once it ended by itself and all it printed is in `lines`."""
        try:
            code = self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise ChildFailed(self._report(f"still runs after {deadline_s:g} s")) from None
        for reader in self._readers:
            reader.join(deadline_s)
        return code

    def succeed(self, deadline_s: float = DEADLINE_S) -> list[str]:
        """Waits for its end, which must be with exit code 0; returns all it printed."""
        if self.wait(deadline_s) != 0:
            raise ChildFailed(self._report(f"ended with {self._process.returncode}"))
        return self.lines

    def close(self) -> None:
        """Kills the process and what it started in its group."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        _REAPER.tell("-", self._process.pid)
        for reader in self._readers:
            reader.join(DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # the group is gone, or only a zombie of it is left

    def _read(self, stream: IO[str] | None, into: list[str]) -> threading.Thread:
        assert stream is not None

        def read() -> None:
            with stream:
                for line in stream:
                    with self._changed:
                        into.append(line.rstrip("\n"))
                        self._changed.notify_all()
            with self._changed:
                self._changed.notify_all()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        return reader

    def _report(self, what: str) -> str:
        printed, errors = "\n".join(self._lines[-30:]), "\n".join(self._error_lines[-60:])
        return (
            f"child {self._process.pid} {what}\n--- it printed:\n{printed}\n--- errors:\n{errors}"
        )


def process_state(pid: int) -> str:
    """The kernel's letter for the state of any process: T is stopped, Z a zombie, "" is gone."""
    if Path("/proc/self/stat").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""
    asked = subprocess.run(
        ["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip()[:1]


def alive(pid: int) -> bool:
    """Whether a process runs or is stopped; a zombie nobody has collected yet is gone."""
    return process_state(pid) not in {"", "Z"}


class _Reaper:
    """This process's reaper program, started with the first child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def tell(self, sign: str, group: int) -> None:
        with self._lock:
            if self._process is None:
                program = Path(__file__).with_name("reaper.py")
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", program],
                    stdin=subprocess.PIPE,
                    start_new_session=True,
                )
            assert self._process.stdin is not None
            self._process.stdin.write(f"{sign}{group}\n".encode())
            self._process.stdin.flush()


_REAPER = _Reaper()
