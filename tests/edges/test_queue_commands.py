"""`perdure queue list | get | set | pause | resume | delete` and `perdure workflow explain`."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Engine, Queue, RateLimit, workflow
from tests.edges.program import Ran, perdure

MEDIA = Queue("media", worker_concurrency=2, rate_limit=RateLimit(100, 60))
IMPORTS = Queue("imports", partition_concurrency=1, priority_enabled=False)


@workflow
async def convert(file: str) -> str:
    return file


async def _enqueue(url: str) -> None:
    """Two wait and one is delayed in `media`, and nobody serves it."""
    async with Engine(url, workflows=[convert], queues=[MEDIA, IMPORTS], listen=[]):
        for number in (1, 2):
            await convert.options(id=f"clip-{number}", queue=MEDIA).start("intro")
        await convert.options(id="later", queue=MEDIA, delay=3600).start("outro")


@pytest.fixture
def url(sqlite_url: str) -> str:
    asyncio.run(_enqueue(sqlite_url))
    return sqlite_url


def queue(*arguments: str, url: str, typed: str | None = None) -> Ran:
    return perdure("queue", *arguments, "--database", url, typed=typed)


def seen(url: str, name: str = "media") -> Any:
    """What the queue is now, as a document."""
    return queue("get", name, "--json", url=url).json


def test_queues_are_listed_with_what_is_in_them(url: str) -> None:
    lines = queue("list", url=url).out.splitlines()
    assert " ".join(lines[0].split()) == "queue waiting oldest delayed running ended/min limits"
    assert lines[1].split() == ["imports", "0", "0", "0", "0", "partition_concurrency", "1"]
    media = lines[2].split()
    assert media[:2] == ["media", "2"]
    assert lines[2].endswith("worker_concurrency 2, rate_limit 100 within 60 s")
    assert lines[2].rpartition("worker_concurrency")[0].split()[-3:] == ["1", "0", "0"]
    assert all(line == line.rstrip() for line in lines)


def test_the_list_as_a_document(url: str) -> None:
    imports, media = queue("list", "--json", url=url).json
    assert imports["name"] == "imports"
    assert imports["partitioned"] is True
    assert (media["enqueued"], media["delayed"], media["running"]) == (2, 1, 0)


def test_without_queues_it_says_so(url: str) -> None:
    ran = queue("list", "--app", "another", url=url)
    assert (ran.code, ran.out) == (0, "the application 'another' has no queues\n")
    assert queue("list", "--app", "another", "--json", url=url).json == []


def test_one_queue_with_all_its_settings(url: str) -> None:
    document = seen(url)
    for instant in ("created_at", "updated_at", "oldest_at"):
        assert datetime.fromisoformat(document.pop(instant)).utcoffset() is not None
    assert document == {
        "name": "media",
        "application": "app",
        "paused_at": None,
        "worker_concurrency": 2,
        "global_concurrency": None,
        "rate_limit": {"limit": 100, "period_s": 60.0},
        "priority_enabled": True,
        "partitioned": False,
        "partition_concurrency": None,
        "partition_worker_concurrency": None,
        "partition_rate_limit": None,
        "base_polling_interval_s": 1.0,
        "max_polling_interval_s": 120.0,
        "enqueued": 2,
        "delayed": 1,
        "running": 0,
        "completed_last_minute": 0,
    }
    text = queue("get", "media", url=url).out
    shown = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in text.splitlines()}
    assert shown["state"] == "served"
    assert shown["global_concurrency"] == "none"
    assert shown["rate_limit"] == "100 within 60 s"
    assert shown["base_polling_interval"] == "1 s"
    assert shown["partitioned"] == "no"


@pytest.mark.parametrize("command", ["get", "pause", "resume", "delete"])
def test_an_unknown_queue_is_an_error(url: str, command: str) -> None:
    ran = queue(command, "nothing", url=url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "perdure: application 'app' has no queue 'nothing'; `perdure queue list` shows those it "
        "has, and --app names another application\n"
    )


def test_settings_are_changed_and_the_others_stay(url: str) -> None:
    ran = queue(
        "set", "media", "--worker-concurrency", "5", "--rate-limit", "none",
        "--global-concurrency", "7", "--max-polling-interval", "30", "--no-priority-enabled",
        url=url,
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "queue 'media' has worker_concurrency 5, global_concurrency 7, rate_limit none, "
        "priority_enabled no, max_polling_interval 30 s; 2 workflows wait in it and 0 run\n"
    )
    document = seen(url)
    assert (document["worker_concurrency"], document["global_concurrency"]) == (5, 7)
    assert document["rate_limit"] is None
    assert document["priority_enabled"] is False
    assert document["base_polling_interval_s"] == 1.0
    assert document["max_polling_interval_s"] == 30.0


def test_a_rate_is_set_and_told_as_a_document(url: str) -> None:
    ran = queue("set", "imports", "--partition-rate-limit", "5/0.5", "--json", url=url)
    assert ran.json["partition_rate_limit"] == {"limit": 5, "period_s": 0.5}
    assert ran.json == seen(url, "imports")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "perdure: say what to set, such as --worker-concurrency 5"),
        (("--worker-concurrency", "0"), "worker_concurrency=0 must be a whole number from 1"),
        (("--global-concurrency", "1"), "worker_concurrency=2 is more than global_concurrency=1"),
        (("--max-polling-interval", "0.1"), "max_polling_interval=0.1 s is below"),
        (("--worker-concurrency", "few"), "'few' is neither a whole number nor none"),
        (("--rate-limit", "100"), "'100' is neither N/SECONDS, such as 100/60, nor none"),
        (("--rate-limit", "100/0"), "rate_limit.period"),
    ],
)
def test_what_cannot_be_set_is_wrong_use_and_changes_nothing(
    url: str, given: tuple[str, ...], said: str
) -> None:
    before = seen(url)
    ran = queue("set", "media", *given, url=url)
    assert (ran.code, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())
    assert seen(url) == before


def test_a_pause_and_its_end_may_be_said_twice(url: str) -> None:
    first = queue("pause", "media", url=url)
    since = seen(url)["paused_at"]
    assert first.out.startswith("queue 'media' is paused since 2")
    assert first.out.endswith("; 2 workflows wait in it and 0 run\n")
    assert queue("pause", "media", url=url).out == first.out
    assert seen(url)["paused_at"] == since
    assert (
        queue("list", url=url)
        .out.splitlines()[2]
        .endswith("paused; worker_concurrency 2, rate_limit 100 within 60 s")
    )
    assert "paused since" in queue("get", "media", url=url).out
    for _ in range(2):
        ran = queue("resume", "media", url=url)
        assert ran.out == "queue 'media' is served; 2 workflows wait in it and 0 run\n"
    assert queue("resume", "media", "--json", url=url).json["paused_at"] is None


def test_deleting_asks_and_says_what_is_left_waiting(url: str) -> None:
    rest = "3 workflows wait in it until a queue of that name is registered again"
    for answer in ("n\n", ""):
        refused = queue("delete", "media", url=url, typed=answer)
        assert (refused.code, refused.out.strip()) == (1, answer.strip())
        assert f"Delete queue 'media'? {rest}." in refused.err
    assert seen(url)["enqueued"] == 2
    assert queue("delete", "media", url=url, typed="y\n").out.endswith(
        f"queue 'media' is deleted; {rest}\n"
    )
    assert queue("get", "media", url=url).code == 1
    ran = queue("delete", "imports", "--yes", "--json", url=url)
    assert ran.json == {"name": "imports", "stranded": 0}


@pytest.mark.parametrize("command", ["pause", "delete"])
def test_an_internal_queue_is_nobodys_to_change(url: str, command: str) -> None:
    ran = queue(command, "_perdure_internal_queue", url=url)
    assert ran.code == 2
    assert "reserved" in ran.err


def test_no_name_steers_the_terminal(sqlite_url: str) -> None:
    async def declare() -> None:
        async with Engine(sqlite_url, workflows=[], queues=[Queue("a\x1b[31mb")]):
            pass

    asyncio.run(declare())
    assert "a\\x1b[31mb" in queue("list", url=sqlite_url).out
    assert "queue 'a\\x1b[31mb' is paused" in queue("pause", "a\x1b[31mb", url=sqlite_url).out


def test_it_explains_why_a_workflow_waits(url: str) -> None:
    queue("pause", "media", url=url)
    ran = perdure("workflow", "explain", "clip-1", "--database", url)
    assert ran.code == 0
    assert ran.out.startswith("Queue 'media' is paused since ")
    assert ran.out.endswith("`perdure queue resume media` lets it go on.\n")
    document = perdure("workflow", "explain", "later", "--database", url, "--json").json
    assert document["workflow_id"] == "later"
    assert document["cause"] == "delayed"
    assert datetime.fromisoformat(document["until"]).utcoffset() is not None
    assert document["holders"] == []


def test_nothing_explains_what_is_not_there(url: str) -> None:
    ran = perdure("workflow", "explain", "nobody", "--database", url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "perdure: no workflow has the id 'nobody'\n"


def test_the_commands_follow_the_application(tmp_path: Path) -> None:
    async def declare(url: str) -> None:
        async with Engine(url, name="shop", workflows=[], queues=[MEDIA]):
            pass

    url = f"sqlite:///{tmp_path}/perdure.db"
    asyncio.run(declare(url))
    assert queue("get", "media", url=url).code == 1
    assert queue("get", "media", "--app", "shop", url=url).code == 0


async def test_on_postgres_too(postgres_url: str) -> None:
    await _enqueue(postgres_url)
    ran = await asyncio.to_thread(queue, "pause", "media", "--json", url=postgres_url)
    assert (ran.json["enqueued"], ran.json["delayed"]) == (2, 1)
    ran = await asyncio.to_thread(
        perdure, "workflow", "explain", "clip-2", "-d", postgres_url, "--json"
    )
    assert ran.json["cause"] == "queue_paused"
    async with Client(postgres_url) as client:
        assert (await client.queues.get("media")).is_paused
