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


def test_queues_run_two_files_at_a_time_and_send_no_mail_twice(tmp_path: Path) -> None:
    *printed, outcome = run("queues.py", tmp_path)
    assert sorted(printed) == [
        "a mail to ada",
        "a mail to bob",
        *(f"transcoding {file}" for file in ("intro", "outro", "talk")),
    ]
    assert outcome == "intro.mp4, talk.mp4, outro.mp4, mail to ada, mail to bob, mail to ada"


def test_a_pipeline_survives_its_workers_and_keeps_its_limits(tmp_path: Path) -> None:
    *printed, outcome = run("queue_pipeline.py", tmp_path)
    said = "\n".join(printed)
    assert re.search(r"^the queue is paused: \d+ wait, \d still run$", said, re.MULTILINE)
    assert re.search(r"^clip-\d\d: Queue 'clips' is paused since ", said, re.MULTILINE)
    assert "worker-2 is killed: what it ran goes on in another" in printed
    told = re.fullmatch(
        r"30 files converted by (\d) workers, at most (\d+) at once, at most (\d+) started in a "
        "second",
        outcome,
    )
    assert told
    workers, at_once, in_a_second = map(int, told.groups())
    assert workers <= 4
    assert at_once <= 4
    assert in_a_second <= 10


def test_a_pipeline_killed_while_it_is_paused_goes_on(tmp_path: Path) -> None:
    with ChildProcess(EXAMPLES / "queue_pipeline.py", cwd=tmp_path) as child:
        child.wait_for("the queue is paused")
        child.kill()
    assert run("queue_pipeline.py", tmp_path)[-1].startswith("30 files converted by ")
