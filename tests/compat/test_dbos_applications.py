"""An application of the real dbos on the same database: beside ours, and before ours."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure import UnexpectedStep, WorkflowState, patch, sleep, step, workflow
from perdure.logic import endings
from perdure.logic.retry import Backoff
from tests.compat.conftest import Dbos
from tests.support.engines import Lab
from tests.support.process import ChildProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("dbos_can_write")

HOUR, DAY = 3_600, 86_400
PROGRAM = Path(__file__).parents[1] / "support" / "reference_programs" / "dbos_application.py"

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


@step(name="first")
async def first(word: str) -> str:
    ran[word] += 1
    return word.upper()


@step(name="fails")
async def fails(word: str) -> None:
    ran["fails"] += 1
    raise LookupError(f"no {word}")


@step(name="stand")
async def stand(word: str) -> str:
    ran["stand"] += 1
    return f"{word} stood"


@workflow(name="leg")
async def leg(word: str) -> dict[str, str]:
    return {"leg": await first(f"{word} leg")}


@workflow(name="journey")
async def journey(word: str) -> list[Any]:
    begun = await first(word)
    try:
        await fails(word)
    except LookupError as error:
        begun = f"{begun} {error.args[0]}"
    await sleep(0.01)
    return [begun, await leg(word), await stand(word), await first("end")]


@workflow(name="detour")
async def detour(word: str) -> list[str]:
    begun = await first(word)
    way = await first("new") if await patch("way") else await first("old")
    return [begun, way, await stand(word)]


@workflow(name="naps")
async def naps(word: str) -> str:
    await sleep(DAY)
    return word.upper()


JOURNEY = ["W no w", {"leg": "W LEG"}, "w stood", "END"]


def application(python: Path, url: str, *ids: str, **settings: Any) -> ChildProcess:
    """A running application of the real dbos."""
    told = {
        "name": "app",
        "version": "shared",
        "executor": "local",
        "portable": True,
        "stands": False,
        **settings,
    }
    return ChildProcess(PROGRAM, url, json.dumps(told), *ids, python=python)


@pytest.mark.parametrize("patching", [True, False], ids=["patched", "old"])
async def test_a_killed_dbos_workflow_keeps_its_way_around_a_patch(
    shared_lab: Lab, dbos: Dbos, dbos_python: Path, patching: bool
) -> None:
    """Their marker is ours; without one, what they recorded there says that the run is old."""
    lab = shared_lab
    told = {"workflow": "detour", "patching": patching, "stands": True}
    with application(dbos_python, lab.url, "w", **told) as doomed:
        await doomed.reaches("stands w")
        doomed.kill()
    marker = ["DBOS.patch-way"] if patching else []
    assert await lab.history("w") == list(enumerate(["first", *marker, "first"], 1))
    engine = await lab.start(detour, version="shared", unpickle=True)
    await dbos.ask("resume_workflow", "w")
    assert await engine.handle("w", detour) == ["W", "NEW" if patching else "OLD", "w stood"]
    assert ran == {"stand": 1}


async def left_standing(python: Path, lab: Lab, **settings: Any) -> None:
    """A journey of a dbos application that was killed in its step `stand`."""
    with application(python, lab.url, "w", stands=True, **settings) as doomed:
        await doomed.reaches("stands w")
        doomed.kill()
    names = ["first", "fails", "DBOS.sleep", "leg", "DBOS.getResult"]
    assert await lab.history("w") == list(enumerate(names, 1))
    assert await lab.state("w") == "PENDING"


@pytest.mark.parametrize("portable", [True, False], ids=["portable", "pickled"])
async def test_a_killed_dbos_workflow_goes_on_here_from_its_recorded_steps(
    shared_lab: Lab, dbos: Dbos, dbos_python: Path, portable: bool
) -> None:
    """Once somebody resumes it: rows of other SDKs' executors are nobody else's to judge."""
    lab = shared_lab
    await left_standing(dbos_python, lab, portable=portable)
    engine = await lab.start(journey, leg, naps, version="shared", unpickle=True)
    # Two looks around would be enough to judge a process of ours.
    await naps.options(id="n").start("n")
    await eventually(lambda: lab.store.counts["lost"] >= 2)
    row = await lab.status("w")
    assert (row["status"], row["executor_id"]) == ("PENDING", "local")
    await dbos.ask("resume_workflow", "w")
    assert await engine.handle("w", journey) == JOURNEY
    assert ran == {"stand": 1, "end": 1}
    row = await lab.status("w")
    assert row["serialization"] == ("portable_json" if portable else "py_pickle")
    assert (row["status"], row["executor_id"]) == ("SUCCESS", engine.executor_id)
    assert await dbos.ask("result", "w") == JOURNEY
    steps = await dbos.ask("list_workflow_steps", "w")
    assert [each["output"] for each in steps][-2:] == ["w stood", "END"]


@pytest.mark.parametrize("portable", [True, False], ids=["portable", "pickled"])
async def test_without_unpickling_a_dbos_workflow_is_given_back_with_the_remedy(
    shared_lab: Lab,
    dbos: Dbos,
    dbos_python: Path,
    portable: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of it is misread or run again, and an engine that may read it goes on."""
    lab = shared_lab
    # Not tried again by itself while it is looked at.
    monkeypatch.setattr(endings, "RELEASED", Backoff(first_s=HOUR, rate=1.0, cap_s=HOUR))
    await left_standing(dbos_python, lab, portable=portable)
    before = await lab.steps("w")
    engine = await lab.start(journey, leg, version="shared")
    await dbos.ask("resume_workflow", "w")
    with pytest.raises(Exception, match=r"Engine\(\.\.\., unpickle=True\)") as raised:
        await engine.handle("w")
    assert isinstance(raised.value, UnexpectedStep) is portable
    row = await lab.until("w", WorkflowState.DELAYED)
    assert (row["recovery_attempts"], row["owner_xid"]) == (1, None)
    assert await lab.steps("w") == before
    assert ran == {}
    await engine.stop()
    reader = await lab.start(journey, leg, version="shared", unpickle=True)
    lab.clock.leap(HOUR)
    assert await reader.handle("w", journey) == JOURNEY
    assert ran == {"stand": 1, "end": 1}


@pytest.mark.parametrize("name", ["app", "billing"], ids=["same name", "another name"])
async def test_a_dbos_application_beside_ours_disturbs_nothing_and_is_not_disturbed(
    shared_lab: Lab, dbos: Dbos, dbos_python: Path, name: str
) -> None:
    """It launches, recovers what is its own, polls its queues and runs its workflows."""
    lab = shared_lab
    engine = await lab.start(naps, journey, leg)
    for workflow_id in ("n1", "n2"):
        await naps.options(id=workflow_id).start(workflow_id)
    await eventually(lambda: len(lab.clock.sleepers(DAY - 1)) == 2)
    before = [await lab.status(each) for each in ("n1", "n2")]
    with application(dbos_python, lab.url, "w", name=name, version="theirs") as beside:
        await beside.reaches("launched")
        assert json.loads((await beside.reaches("result w")).split(maxsplit=2)[2]) == JOURNEY
        ours = await journey.options(id="ours")("x")
        assert ours == ["X no x", {"leg": "X LEG"}, "x stood", "END"]
        assert [await lab.status(each) for each in ("n1", "n2")] == before
        # While its poller of the queue they share runs, it is ours to take.
        await dbos.ask("resume_workflow", "n2")
        await eventually(lambda: len(lab.clock.sleepers(DAY - 60)) == 2)
        lab.clock.leap(DAY)
        assert await engine.handle("n1", naps) == "N1"
        assert await engine.handle("n2", naps) == "N2"
        assert (await lab.status("n2"))["executor_id"] == engine.executor_id
    theirs = await lab.status("w")
    assert (theirs["executor_id"], theirs["application_name"]) == ("local", name)
    assert theirs["recovery_attempts"] == 1
    found = await lab.rows("SELECT * FROM application_versions ORDER BY version_name")
    assert [(row["version_name"], row["application_name"]) for row in found] == [
        ("app@default", "app"),
        ("theirs", name),
    ]


async def test_a_dbos_launch_under_our_very_names_recovers_nothing_of_ours(
    shared_lab: Lab, dbos_python: Path
) -> None:
    """Application, version and executor are called alike; a row names the boot that owns it."""
    lab = shared_lab
    engine = await lab.start(naps, version="shared", executor_id="local")
    await naps.options(id="n").start("n")
    await lab.until_asleep(DAY - 1)
    before = await lab.status("n")
    assert before["executor_id"] == engine.executor_id != "local"
    with application(dbos_python, lab.url, "w") as beside:
        await beside.reaches("result w")
        assert await lab.status("n") == before
    lab.clock.leap(DAY)
    assert await engine.handle("n", naps) == "N"
    assert (await lab.status("n"))["recovery_attempts"] == 1


async def test_neither_takes_up_what_the_other_s_dead_process_left(
    shared_lab: Lab, dbos_python: Path
) -> None:
    """A row of theirs stays for their next launch, whatever we are called; that finishes it."""
    lab = shared_lab
    await left_standing(dbos_python, lab, name="billing", version="theirs", executor="worker-1")
    engine = await lab.start(journey, leg, naps, name="billing", version="theirs")
    await naps.options(id="n").start("n")
    await lab.until_asleep(DAY - 1)
    asked = lab.store.counts["lost"]
    await eventually(lambda: lab.store.counts["lost"] >= asked + 2)
    row = await lab.status("w")
    assert (row["status"], row["executor_id"]) == ("PENDING", "worker-1")
    assert ran == {}
    await engine.stop()
    told = {"name": "billing", "version": "theirs", "executor": "worker-1"}
    with application(dbos_python, lab.url, **told) as relaunched:
        await relaunched.reaches("stands w")
        row = await lab.until("w")
    assert (row["status"], row["executor_id"]) == ("SUCCESS", "worker-1")
    assert await lab.state("n") == "ENQUEUED"


async def test_what_a_dbos_application_wrote_is_listed_and_its_pickles_said_to_be(
    shared_lab: Lab, dbos: Dbos, dbos_python: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A row without a name, and payloads that are not read here, spoil no page."""
    lab = shared_lab
    engine = await lab.start(naps, version="ours")
    with application(dbos_python, lab.url, "w", portable=False) as beside:
        await beside.reaches("result w")
    await lab.backdoor.run(
        "INSERT INTO workflow_status (workflow_uuid, status) VALUES ('bare', 'SUCCESS')"
    )
    workflows = engine.workflows
    rows = {row.workflow_id: row async for row in workflows.iterate(with_outputs=True)}
    children = await workflows.children("w")
    assert set(rows) == {"w", "bare", *(row.workflow_id for row in children)}
    assert (rows["bare"].key.name, rows["w"].key.name) == ("", "journey")
    assert [row.key.name for row in children] == ["leg"]
    tree = await workflows.tree("w")
    assert [(branch.depth, branch.workflow.key.name) for branch in tree] == [
        (0, "journey"),
        (1, "leg"),
    ]
    assert await workflows.count(executors="local", versions="shared") == 2
    row = await workflows.get("w", with_payloads=True)
    assert row.serialization == "py_pickle"
    payloads = workflows.payloads(row)
    assert (payloads.output, payloads.args) == (row.output, row.inputs)
    assert "unpickle=True" in caplog.text
    steps = await workflows.steps("w")
    assert [step.name for step in steps][:2] == ["first", "fails"]
    await engine.stop()
    trusting = await lab.start(naps, version="ours", unpickle=True)
    payloads = trusting.workflows.payloads(row)
    assert (payloads.output, payloads.args, payloads.kwargs) == (JOURNEY, ("w",), {})
