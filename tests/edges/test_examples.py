"""Every example runs as it stands, and twice is as good as once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.edges.records import counted, recorded
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
    # Mails are printed by two threads at once, whose lines may end in one another.
    said = "".join(printed)
    mails = [f"a mail to {address}" for address in ("ada", "bob")]
    files = [f"transcoding {file}" for file in ("intro", "outro", "talk")]
    assert [said.count(each) for each in (*mails, *files)] == [1] * 5
    assert len(said) == sum(map(len, (*mails, *files)))
    assert outcome == "intro.mp4, talk.mp4, outro.mp4, mail to ada, mail to bob, mail to ada"


def test_a_pipeline_survives_its_workers_and_keeps_its_limits(tmp_path: Path) -> None:
    *printed, outcome = run("queue_pipeline.py", tmp_path)
    said = "\n".join(printed)
    paused = re.search(r"^the queue is paused: (\d+) wait, \d still run$", said, re.MULTILINE)
    assert paused
    explained = re.search(r"^clip-\d\d: Queue 'clips' is paused since ", said, re.MULTILINE)
    # Where the pause came late all have begun, and there is nothing to explain.
    assert bool(explained) is (int(paused[1]) > 0)
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


def test_an_approval_waits_for_a_human_in_another_process(tmp_path: Path) -> None:
    """Killed while it waits and answered meanwhile: the answer counts, nobody is asked twice."""
    database = tmp_path / "approvals.db"
    with ChildProcess(EXAMPLES / "approval.py", "7", "600", cwd=tmp_path) as child:
        child.wait_for("may Ada spend 120.00?")
        wait_until(lambda: recorded(database, "DBOS.sleep"))
        child.kill()
    assert run("approval.py", tmp_path, "answer", "7", "yes") == ["may Ada spend 120.00?"]
    assert run("approval.py", tmp_path, "answer", "7", "no"), "too late: one answer of a human"
    outcome = "expense 7: approved by Grace"
    assert run("approval.py", tmp_path, "7", "600") == ["120.00 paid", outcome]
    assert run("approval.py", tmp_path, "7", "600") == [outcome]


def test_an_approval_is_declined_while_it_runs(tmp_path: Path) -> None:
    with ChildProcess(EXAMPLES / "approval.py", "8", "600", cwd=tmp_path) as child:
        child.wait_for("may Ada spend 120.00?")
        run("approval.py", tmp_path, "answer", "8", "no")
        assert child.succeed()[-1] == "expense 8: declined by Grace"


def test_the_deadline_of_an_approval_stays_where_it_was(tmp_path: Path) -> None:
    """It passes while nothing runs."""
    with ChildProcess(EXAMPLES / "approval.py", "9", "1", cwd=tmp_path) as child:
        child.wait_for("may Ada spend 120.00?")
        wait_until(lambda: recorded(tmp_path / "approvals.db", "DBOS.sleep"))
        child.kill()
    wait_until(lambda: is_over(tmp_path / "approvals.db", "DBOS.sleep"))
    assert run("approval.py", tmp_path, "9", "1") == ["expense 9: nobody answered in time"]


def test_an_agent_streams_to_live_readers_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    """No search is done again, and every word comes once, to a reader of another process too."""
    database = tmp_path / "research.db"
    with ChildProcess(EXAMPLES / "token_stream.py", cwd=tmp_path) as child:
        searches = [child.wait_for("searching") for _ in range(3)]
        wait_until(lambda: words_of(database) > 3)
        child.kill()
    with ChildProcess(EXAMPLES / "token_stream.py", "watch", cwd=tmp_path) as reader:
        printed = run("token_stream.py", tmp_path)
        assert reader.succeed() == printed
    answer = "they write down what was done, they replay what was written, they go on from there"
    assert [line.strip() for line in printed] == [answer]
    assert sorted(searches) == ["searching books", "searching papers", "searching people"]


# What a step of the repair prints, by the step's name.
TOLD = {"charge": " is charged", "frank": " is franked with ", "hand_over": " is on its way"}
REPAIRED = "6 orders are on their way, 4 of them repaired: 4 steps were kept, 8 were done"


def test_a_repair_does_every_step_of_every_order_once(tmp_path: Path) -> None:
    """The operator sees what failed, and one call lets it go on."""
    *printed, outcome = run("repair.py", tmp_path)
    assert outcome == REPAIRED
    orders = [f"order-{number}" for number in range(1, 7)]
    for told in TOLD.values():
        assert sorted(line.partition(told)[0] for line in printed if told in line) == orders
    assert [line for line in printed if not line.startswith("order-")] == [
        "2 orders of 2026-12-02 failed with KeyError('CH')",
        "2 orders of 2026-12-02 failed with KeyError('NO')",
        "4 orders go on from the step that failed",
    ]


@pytest.mark.parametrize("moment", ["is franked", "go on from the step", "franked with 14"])
def test_a_repair_killed_in_the_middle_goes_on(tmp_path: Path, moment: str) -> None:
    """While the bad deploy runs, when the forks were made, and while they run."""
    with ChildProcess(EXAMPLES / "repair.py", cwd=tmp_path) as child:
        child.wait_for(moment)
        child.kill()
    left = {step: 6 - orders_behind(tmp_path / "repair.db", step) for step in TOLD}
    printed = run("repair.py", tmp_path)
    assert printed[-1] == REPAIRED
    for step, told in TOLD.items():
        assert sum(told in line for line in printed) == left[step]


def orders_behind(database: Path, step: str) -> int:
    """How many orders have that step behind them, by themselves or in a fork."""
    query = (
        "SELECT count(DISTINCT coalesce(forked_from, workflow_uuid))"
        " FROM operation_outputs JOIN workflow_status USING (workflow_uuid)"
        f" WHERE function_name = '{step}' AND operation_outputs.error IS NULL"
    )
    return counted(database, query)


def words_of(database: Path) -> int:
    """How many words of the answer are in its stream."""
    return counted(database, "SELECT count(*) FROM streams WHERE key = 'answer'")


def is_over(database: Path, step: str) -> bool:
    """Whether the instant at which that step is complete has passed."""
    late = "completed_at_epoch_ms < 1000 * CAST(strftime('%s', 'now') AS INTEGER)"
    query = f"SELECT count(*) FROM operation_outputs WHERE function_name = '{step}' AND {late}"
    return counted(database, query) > 0
