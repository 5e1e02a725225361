"""A program that owns one private Postgres server for as long as somebody holds its input open.

Started by `postgres.py` as a process of its own. It reads one JSON command per line and answers
each with one JSON line. When its input ends, however the holder ended, it stops the server and
deletes the directory. It stays privileged when started as root, so that it can always clean up;
the server and `initdb` run as an unprivileged user, because Postgres refuses root.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 30.0
STOP_SIGNALS = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "kill": signal.SIGKILL,
}


class Keeper:
    def __init__(self, root: Path, binaries: Path, password: str, settings: dict[str, str]) -> None:
        self.root = root
        self.data = root / "data"
        self.log = root / "server.log"
        self.settings = settings
        self.password = password
        self.port = 0
        self.server: subprocess.Popen[bytes] | None = None
        self.account = _unprivileged_account()
        self.binaries = binaries

    def start(self) -> dict[str, Any]:
        if not self.data.exists():
            self._initialize()
        if self.server is None:
            self._launch()
        return {"port": self.port, "pid": self.server.pid if self.server else None}

    def stop(self, mode: str = "immediate") -> dict[str, Any]:
        if self.server is not None:
            self.server.send_signal(STOP_SIGNALS[mode])
            try:
                self.server.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
            self.server = None
        return {}

    def close(self) -> None:
        self.stop()
        # Backends of a killed server may still be writing while they notice its end.
        for _ in range(50):
            shutil.rmtree(self.root, ignore_errors=True)
            if not self.root.exists():
                return
            time.sleep(0.1)

    def _initialize(self) -> None:
        self._own(self.root)
        secret = self.root / "password"
        secret.write_text(self.password + "\n")
        self._own(secret)
        command = [self.binaries / "initdb", "--pgdata", self.data, "--username", "postgres"]
        # SCRAM costs the server ten milliseconds of hashing per session, md5 none.
        command += ["--auth", "md5", "--pwfile", secret, "--encoding", "UTF8"]
        command += ["--locale", "C", "--no-sync"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, **self._child_options()
        )
        secret.unlink()
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")

    def _launch(self) -> None:
        """Starts the server; a chosen port is kept for later starts, so that URLs stay valid."""
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            port = self.port or _free_port()
            self._spawn(port)
            if self._wait_until_ready(deadline):
                self.port = port
                return
            self.stop("kill")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start; its log ends:\n{self._log_tail()}")
            time.sleep(0.1)

    def _spawn(self, port: int) -> None:
        command = [str(self.binaries / "postgres"), "-D", str(self.data), "-p", str(port)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            self.server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - this program has one thread
                **self._child_options(),
            )

    def _wait_until_ready(self, deadline: float) -> bool:
        """False when this try ended without a server; it may still be worth another."""
        server = self.server
        while server is not None and time.monotonic() < deadline:
            if server.poll() is not None:
                self.server = None
                return False
            try:
                lines = (self.data / "postmaster.pid").read_text().splitlines()
            except OSError:
                lines = []
            # The file of a killed predecessor may still lie there: its first line is another pid.
            if len(lines) >= 8 and lines[0] == str(server.pid) and lines[7].strip() == "ready":
                return True
            time.sleep(0.02)
        return False

    def _log_tail(self) -> str:
        try:
            return self.log.read_text(errors="replace")[-2000:]
        except OSError as error:
            return str(error)

    def _child_options(self) -> dict[str, Any]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        options: dict[str, Any] = {"cwd": self.root, "env": environment}
        if self.account is not None:
            options |= {"user": self.account.pw_uid, "group": self.account.pw_gid}
            options["extra_groups"] = []
        return options

    def _own(self, path: Path) -> None:
        if self.account is not None:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)


def _unprivileged_account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("Postgres refuses root, and there is neither a user postgres nor nobody")


def _free_port() -> int:
    """One that the system gives to nobody who asks for any, not even while the server is down."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux the kernel stops the server if even this process is killed."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    set_parent_death_signal = 1
    return lambda: prctl(set_parent_death_signal, signal.SIGQUIT)


def commands(holder: int) -> Iterator[dict[str, Any]]:
    """Commands until the input ends or the holder is gone.

    The second check is for a forked child of the holder that keeps the input open.
    """
    buffered = b""
    while True:
        readable, _, _ = select.select([0], [], [], 1.0)
        if readable:
            received = os.read(0, 65536)
            if not received:
                return
            buffered += received
            while b"\n" in buffered:
                line, buffered = buffered.split(b"\n", 1)
                yield json.loads(line)
        elif os.getppid() != holder:
            return


def main() -> None:
    # Taken first: if the holder dies meanwhile, this is already another process's id, and the
    # end of input says so.
    holder = os.getppid()
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    setup = json.loads(sys.argv[1])
    root = Path(setup["root"])
    keeper: Keeper | None = None
    try:
        for command in commands(holder):
            try:
                if keeper is None:
                    keeper = Keeper(
                        root, Path(setup["binaries"]), setup["password"], setup["settings"]
                    )
                method = {"start": keeper.start, "stop": keeper.stop}[command.pop("do")]
                answer = method(**command)
            except Exception as error:  # noqa: BLE001 - the holder must hear of any
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)
    finally:
        if keeper is not None:
            keeper.close()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
