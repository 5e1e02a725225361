"""The README is true: its example runs as it stands, and twice is as good as once."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.process import PROJECT, ChildProcess

README = (PROJECT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_and_runs_again(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    script = tmp_path / "convert.py"
    script.write_text(example, encoding="utf-8")
    for _ in range(2):
        with ChildProcess(script, cwd=tmp_path) as child:
            assert child.succeed() == ["intro.mp4"]


def test_there_are_exactly_two_commands_to_set_up() -> None:
    commands = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert [command.count("\n") for command in commands] == [1, 1]
    assert "perdure demo" in commands[0]
    assert "pytest" in commands[1]
