"""A client of the real `dbos`, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("reference_programs") / "dbos_client.py"


class DbosRefused(Exception):
    """What the client raised: the name of the class, its message, and its fields."""

    def __init__(self, name: str, message: str, fields: dict[str, Any]) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message
        self.fields = fields


class DbosClient:
    """Asks one question after the other; ends when it is closed, or with this process."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._turn = asyncio.Lock()

    async def ask(self, url: str, method: str, *args: Any, **keywords: Any) -> Any:
        """What the method of a client on that database returns; raises `DbosRefused`."""
        async with self._turn:
            line = await asyncio.to_thread(self._exchange, [url, method, args, keywords])
        assert line, f"the client ended with {self._process.poll()}"
        answer = json.loads(line)
        if "error" in answer:
            raise DbosRefused(*answer["error"])
        return answer["value"]

    def _exchange(self, question: list[Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def close(self) -> None:
        """End the process."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
