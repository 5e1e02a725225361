"""Every example runs as it stands, and twice is as good as once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.edges.records import recorded
from tests.support.process import PROJECT, ChildProcess
from tests.support.waiting import wait_until

EXAMPLES = PROJECT / "examples"


def run(example: str, folder: Path, *arguments: str) -> list[str]:
    with ChildProcess(EXAMPLES / example, *arguments, cwd=folder) as child:
        return child.succeed()


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_it_runs_and_runs_again(example: str, tmp_path: Path) -> None:
    first = run(example, tmp_path)
    second = run(example, tmp_path)
    assert first
    assert second == first[-1:], "the outcome alone is told again"


def test_hello_is_the_example_of_the_readme() -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert (EXAMPLES / "hello.py").read_text(encoding="utf-8").endswith(shown)


def test_an_order_tries_the_payment_again_and_ships(tmp_path: Path) -> None:
    printed = run("order.py", tmp_path, "7")
    assert printed[:3] == [
        f"charging 44.40 for order-7, attempt {attempt}" for attempt in (1, 2, 3)
    ]
    assert printed[3:] == ["order-7: paid 44.40, parcel with kettle and parcel with cup"]


def test_an_order_killed_while_it_sleeps_charges_once(tmp_path: Path) -> None:
    with ChildProcess(EXAMPLES / "order.py", cwd=tmp_path) as child:
        child.wait_for("attempt 3")
        database = tmp_path / "orders.db"
        wait_until(lambda: recorded(database, "DBOS.sleep"))
        child.kill()
    printed = run("order.py", tmp_path)
    assert not any(line.startswith("charging") for line in printed)
    assert printed[-1] == "order-1001: paid 44.40, parcel with kettle and parcel with cup"
