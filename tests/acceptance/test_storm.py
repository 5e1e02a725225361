"""The exactness storm, short: no limit is ever exceeded, nothing is lost, nothing is done twice;
and a process that is stopped at the worst moment, with a queue's lock in its hands.

`python -m tests.support.storm` lets a longer one go on, and shows what each queue did.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure import Queue, workflow
from tests.support.backdoor import PostgresBackdoor
from tests.support.database import Database
from tests.support.engines import Lab
from tests.support.ownership import Entry
from tests.support.process import ChildProcess, process_state
from tests.support.storm import Weather, storm
from tests.support.storm_observer import Left, judge
from tests.support.storm_plan import Job
from tests.support.waiting import eventually

SHORT = Weather(workflows=350, seed=7, mean_s=0.3, between_hits_s=1.0, deadline_s=120)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_limits_are_kept_and_all_work_is_done_once_whoever_is_killed_or_stopped(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    database: Database = request.getfixturevalue(f"{kind}_database")
    outcome = await storm(database, SHORT, tmp_path)
    assert outcome.verdict.problems == []
    assert outcome.hits.keys() == {"killed", "stopped"}


@workflow(name="errand")
async def errand() -> str:
    return "done"


@pytest.mark.parametrize("shared_lab", ["postgres"], indirect=True)
async def test_a_process_stopped_with_a_queues_lock_keeps_it_for_a_moment_only(
    shared_lab: Lab,
) -> None:
    lab = shared_lab
    await lab.start(errand, queues=[Queue("line", global_concurrency=1)])
    backdoor = lab.backdoor
    assert isinstance(backdoor, PostgresBackdoor)
    # Only a queue in which work waits is locked, and this is work for nobody.
    nobody = errand.options(queue="line", version="v9", allow_unknown_version=True)
    await nobody.start()
    with ChildProcess("-m", "tests.support.storm_holder_program", lab.url, "line") as holder:
        await holder.reaches("locked line")
        await eventually(lambda: process_state(holder.pid) == "T")
        # The server keeps time: it would end this session too if it stood still for much longer.
        async with backdoor.transaction(
            "SET LOCAL idle_in_transaction_session_timeout = '20s'"
        ) as witness:
            await errand.options(queue="line", id="w").start()
            await lab.until("w")
            await witness.execute("SELECT")
        assert process_state(holder.pid) == "T"
        holder.resume()
        await errand.options(queue="line", id="next").start()
        await lab.until("next")
        assert holder.running


def queued(workflow_id: str, queue: str) -> Job:
    return Job(workflow_id, queue, None, "v1", 0.1, fails=False)


class Story:
    """What a storm of a few workflows leaves, told event by event; one every 100 ms."""

    def __init__(self, folder: Path, queue: str, *ids: str) -> None:
        self.jobs = [queued(each, queue) for each in ids]
        self._queue = queue
        self._effects = folder / "effects"
        self._lines = [f"step {each} p 0" for each in ids for _ in range(2)]
        self._entries: list[Entry] = []
        self._at_ms = 0
        self.left = Left(
            self._entries,
            self._effects,
            states=dict.fromkeys(ids, "SUCCESS"),
            results={each: f'"{each}"' for each in ids},
            steps=dict.fromkeys(ids, 3),
        )

    def claim(self, workflow_id: str, process: str = "p") -> None:
        self._entry(True, workflow_id, process, "PENDING")

    def end(self, workflow_id: str, state: str = "SUCCESS", process: str = "p") -> None:
        self._entry(False, workflow_id, process, state)

    def body(self, what: str, workflow_id: str) -> None:
        self._lines.append(f"{what} {workflow_id} p {self._next_ms() * 1_000_000}")

    def run(self, *ids: str) -> None:
        """One after the other, as it should be."""
        for each in ids:
            self.claim(each)
            self.body("begin", each)
            self.body("end", each)
            self.end(each)

    def problems(self, **changes: Any) -> list[str]:
        self._effects.write_text("\n".join(self._lines))
        return judge(self.jobs, replace(self.left, **changes)).problems

    def _entry(self, begins: bool, workflow_id: str, process: str, state: str) -> None:
        at_ms = self._next_ms()
        self._entries.append(
            Entry(begins, workflow_id, self._queue, None, f"{process}/boot", at_ms, state, at_ms)
        )

    def _next_ms(self) -> int:
        self._at_ms += 100
        return self._at_ms


def test_the_observer_is_content_with_what_is_right(tmp_path: Path) -> None:
    story = Story(tmp_path, "global-1", "a", "b")
    story.run("a", "b")
    assert story.problems() == []


def test_the_observer_sees_one_too_many(tmp_path: Path) -> None:
    story = Story(tmp_path, "global-1", "a", "b")
    story.claim("a")
    story.claim("b", "q")
    story.end("a")
    story.end("b", process="q")
    (problem,) = story.problems()
    assert problem == ("global-1: owned: 2 at once of global-1 where the limit of the fleet is 1")


def test_the_observer_sees_bodies_that_overlap(tmp_path: Path) -> None:
    story = Story(tmp_path, "global-1", "a", "b")
    story.claim("a")
    story.body("begin", "a")
    story.end("a")
    story.claim("b")
    story.body("begin", "b")
    story.body("end", "a")
    story.body("end", "b")
    story.end("b")
    (problem,) = story.problems()
    assert problem.startswith("global-1: bodies: 2 at once")


def test_the_observer_sees_one_too_many_in_one_process_whatever_its_lease(tmp_path: Path) -> None:
    story = Story(tmp_path, "worker-1", "a", "b")
    story.claim("a", "p")
    story.claim("b", "p")
    story.end("b")
    story.end("a")
    (problem,) = story.problems()
    assert problem == "worker-1: owned: 2 at once of p where the limit of a process is 1"


def test_the_observer_sees_one_too_many_in_a_window(tmp_path: Path) -> None:
    story = Story(tmp_path, "rate", *"abcdef")
    for each in "abcdef":
        story.claim(each)
    for each in "abcdef":
        story.end(each)
    assert story.problems() == []
    story.left.entries[5] = replace(story.left.entries[5], started_at_ms=599)
    (problem,) = story.problems()
    assert problem == "rate: owned: 6 in 0.5 s of rate where the rate is 5"


def test_the_observer_sees_a_limit_that_was_never_tried(tmp_path: Path) -> None:
    story = Story(tmp_path, "global-2", "a", "b")
    story.run("a", "b")
    (problem,) = story.problems()
    assert problem == "global-2: unused: never more than 1 where the limit of the fleet is 2"


def test_the_observer_sees_what_was_lost_or_done_twice(tmp_path: Path) -> None:
    story = Story(tmp_path, "global-1", "a", "b", "c")
    story.run("a", "a", "b")
    story.claim("c")
    story.end("c", "ENQUEUED")
    assert story.problems(
        states={"a": "SUCCESS", "b": "SUCCESS", "c": "ENQUEUED"},
        results={"a": '"a"', "b": '"a"'},
        steps={"a": 3, "b": 2},
    ) == [
        "a: was claimed 2 times, and became ['SUCCESS', 'SUCCESS']",
        'b: has the result "a"',
        "b: has 2 steps, not 3",
        "c: is ENQUEUED, not SUCCESS",
        "c: has the result None",
        "c: has None steps, not 3",
        "c: was claimed 1 times, and became ['ENQUEUED']",
    ]
