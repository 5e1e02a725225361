"""`perdure workflow cancel | resume | fork | rewind | delay | attributes | delete`."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest

from perdure import Engine, Queue, step, workflow
from tests.edges.program import Ran, perdure


@step
async def shrink(file: str) -> str:
    return file[:1]


@step
async def pack(file: str) -> None:
    if file != "fine":
        raise ValueError(file)


@workflow
async def convert(file: str) -> None:
    await shrink(file)
    await pack(file)


@workflow
async def album() -> None:
    await convert.options(id="song")("fine")


async def _work(url: str) -> None:
    media = Queue("media")
    async with Engine(url, workflows=[convert, album], queues=[media]):
        for file in ("a", "b"):
            with contextlib.suppress(ValueError):
                await convert.options(id=file)(file)
        await album.options(id="album")()
        later = convert.options(id="late", queue=media, delay=3600, attributes={"plan": "gold"})
        await later.start("fine")


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database: `a` and `b` failed to pack, an album with its song ended well, `late` waits."""
    path = tmp_path_factory.mktemp("worked") / "perdure.db"
    asyncio.run(_work(f"sqlite:///{path}"))
    return path


@pytest.fixture
def url(worked: Path, tmp_path: Path) -> str:
    """A copy of it."""
    shutil.copy(worked, tmp_path / "perdure.db")
    return f"sqlite:///{tmp_path}/perdure.db"


def run(*arguments: str, url: str, typed: str | None = None) -> Ran:
    return perdure("workflow", *arguments, "--database", url, typed=typed)


def states(url: str) -> dict[str, str]:
    return {row["workflow_id"]: row["state"] for row in run("list", "--json", url=url).json}


def steps(workflow_id: str, url: str) -> list[str]:
    return [row["name"] for row in run("steps", workflow_id, "--json", url=url).json]


def test_one_is_cancelled_and_goes_on(url: str) -> None:
    ran = run("cancel", "late", url=url)
    assert (ran.code, ran.out, ran.err) == (0, "cancelled: 1 workflow\n", "")
    assert states(url)["late"] == "CANCELLED"
    ran = run("resume", "late", "album", "--to-queue", "media", url=url)
    assert ran.out == (
        "resumed: 1 workflow\nleft alone: 1 workflow, because they have their outcome; fork or "
        "rewind them: album\n"
    )
    assert states(url) | {"late": "ENQUEUED", "album": "SUCCESS"} == states(url)
    assert run("cancel", "a", "late", "--yes", "--json", url=url).json == {
        "cancelled": ["late"],
        "left": ["a"],
    }


def test_what_conditions_find_is_counted_and_asked_about(url: str) -> None:
    before = states(url)
    ran = run("cancel", "--state", "delayed", "--children", url=url, typed="n\n")
    assert ran.code == 1
    assert "Cancel workflow 'late' (DELAYED) with all descendants? [y/N]" in ran.err
    ran = run("rewind", "--name", "convert", "--oldest", "--limit", "3", url=url, typed="n\n")
    assert "There are more than these 3: choose with --limit" in ran.err
    assert (
        "Rewind 3 workflows (2 ERROR, 1 SUCCESS) to the beginning? What was recorded from there on "
        "is removed. [y/N]" in ran.err
    )
    assert states(url) == before


def test_the_failed_are_rewound_in_one_command(url: str) -> None:
    ran = run("rewind", "--state", "error", "--from-step", "failed", url=url, typed="y\n")
    assert ran.code == 0
    assert "(2 ERROR) to the last step that failed?" in ran.err
    assert ran.out.endswith("rewound: 2 workflows\n")
    assert states(url) | {"a": "ENQUEUED", "b": "ENQUEUED"} == states(url)
    assert (steps("a", url), steps("b", url)) == (["shrink"], ["shrink"])


def test_what_one_is_refused_for_stops_no_other(url: str) -> None:
    ran = run("rewind", "late", "a", "album", "--from-step", "pack", "--yes", url=url)
    assert (ran.code, ran.out) == (1, "rewound: 1 workflow\n")
    assert ran.err == (
        "perdure: workflow 'late' is DELAYED: only one that has ended can be rewound; cancel it "
        "first\n"
        "perdure: workflow 'album' has recorded no step named 'pack', from which to go on; "
        "`perdure workflow steps album` lists what it recorded\n"
    )
    assert states(url)["a"] == "ENQUEUED"


def test_forks_have_ids_of_their_own(url: str) -> None:
    ran = run("fork", "a", "--id", "a2", "--from-step", "2", "--timeout", "5m", url=url)
    assert (ran.code, ran.out) == (0, "a is forked as a2\nforked: 1 workflow\n")
    assert steps("a2", url) == ["shrink"]
    forked = run(
        "fork", "--state", "ERROR", "--from-step", "last", "--yes", "--json", url=url
    ).json["forked"]
    assert [pair["workflow_id"] for pair in forked] == ["b", "a"]
    assert {states(url)[pair["fork_id"]] for pair in forked} == {"ENQUEUED"}


def test_forks_are_all_made_or_none(url: str) -> None:
    before = states(url)
    ran = run("fork", "a", "album", "--from-step", "pack", url=url)
    assert (ran.code, ran.out) == (1, "")
    assert "workflow 'album' has recorded no step named 'pack'" in ran.err
    assert states(url) == before


def test_deleting_asks(url: str) -> None:
    ran = run("delete", "album", "--children", url=url, typed="y\n")
    assert "Delete workflow 'album' (SUCCESS) with all descendants for ever?" in ran.err
    assert ran.out.endswith("deleted: 2 workflows\n")
    assert set(states(url)) == {"a", "b", "late"}


def test_delays_and_attributes(url: str) -> None:
    ran = run("delay", "late", "a", "--to", "2100-01-01T00:00+00:00", url=url)
    assert ran.out == (
        "delayed: 1 workflow\nleft alone: 1 workflow, because they are not delayed: a\n"
    )
    late = run("get", "late", "--json", url=url).json
    assert late["delayed_until"] == "2100-01-01T00:00:00.000+00:00"
    ran = run("attributes", "late", "seats=3", "note=two words", url=url)
    assert ran.out == (
        'attributes of workflow \'late\': {"plan":"gold","seats":3,"note":"two words"}\n'
    )
    ran = run("attributes", "late", "--replace", "--json", url=url)
    assert ran.json == {"workflow_id": "late", "attributes": None}


@pytest.mark.parametrize("command", ["cancel", "resume", "fork", "rewind", "delete", "export"])
def test_nothing_that_matches_is_no_question(url: str, command: str) -> None:
    ran = run(command, "--state", "error", "--app", "another", url=url)
    assert (ran.code, ran.err) == (0, "no workflows of the application 'another' match\n")


@pytest.mark.parametrize("command", ["cancel", "resume", "fork", "rewind", "delete", "export"])
def test_an_unknown_id_stops_the_whole_command(url: str, command: str) -> None:
    before = states(url)
    ran = run(command, "late", "nobody", url=url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "perdure: no workflow has the id 'nobody'\n"
    assert states(url) == before


@pytest.mark.parametrize(
    ("wrong", "code", "named"),
    [
        (("cancel",), 2, "say which workflows: by their ids, or by conditions"),
        (("cancel", "--any-app"), 2, "say which workflows"),
        (("delete", "a", "--state", "ERROR"), 2, "not both"),
        (("fork", "a", "b", "--id", "c"), 2, "--id names one fork, and 2 workflows are chosen"),
        (("fork", "a", "--id", "b"), 1, "a workflow with the id 'b' exists already"),
        (("fork", "a", "--from-step", "0"), 2, "--from-step 0"),
        (("fork", "a", "--from-step", "9" * 12), 2, "a step's number from 1 on"),
        (("fork", "a", "--to-version", "v9"), 1, "no version 'v9'; `perdure version list`"),
        (("rewind", "a", "--to-queue", "none", "--yes"), 1, "no queue 'none'; `perdure queue list"),
        (("rewind", "a", "--partition-key", "k"), 2, "--partition-key needs --to-queue"),
        (("delay", "late"), 2, "--for SPAN from now, or --to WHEN"),
        (("delay", "late", "--to", "2h"), 2, "'2h' is no instant"),
        (("attributes", "a"), 2, "say what to set"),
        (("attributes", "a", "plan"), 2, "'plan' is not KEY=VALUE"),
        (("attributes", "a", "=gold"), 2, "'=gold' is not KEY=VALUE"),
        (("attributes", "nobody", "plan=gold"), 1, "no workflow has the id 'nobody'"),
    ],
)
def test_what_is_wrong_is_named(url: str, wrong: tuple[str, ...], code: int, named: str) -> None:
    before = states(url)
    ran = run(*wrong, url=url)
    assert (ran.code, ran.out) == (code, "")
    assert named in ran.err
    assert states(url) == before
