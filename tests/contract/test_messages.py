"""`MessageStore`: what is sent, to whom and in which order it comes, and that it comes once."""

from typing import Any

import pytest

from perdure.errors import DatabaseRejected
from perdure.model.answer import AnswerKind
from perdure.model.ids import WorkflowId
from perdure.model.talk import Receiving, Topic
from perdure.model.wire import NULL_TOPIC, SLEEP
from perdure.model.workflow import Fence, NewWorkflow
from perdure.store.rows import recorded_step
from tests.support import rows
from tests.support.backdoor import Row
from tests.support.store import Process, Site, kinds

WRITTEN, MINE = AnswerKind.WRITTEN, AnswerKind.MINE
CONFLICT, LOST = AnswerKind.CONFLICT, AnswerKind.LOST


async def messages(site: Site) -> list[Row]:
    """Every message in the order they were created."""
    return await site.backdoor.rows(
        "SELECT * FROM notifications ORDER BY created_at_epoch_ms, message_uuid"
    )


async def received(me: Process, run: NewWorkflow, count: int, **fields: Any) -> list[str | None]:
    """What that many attempts, one after the other, take; the steps are numbered from 1000."""
    texts = []
    for step_id in range(1000, 1000 + count):
        (answer,) = await me.store.receive([rows.receiving(run, step_id, **fields)])
        assert answer.kind is WRITTEN
        texts.append(answer.standing.output if answer.standing else None)
    return texts


async def test_a_message_holds_what_the_item_says(site: Site, me: Process) -> None:
    """“Store messages, each item's all or none”: every column of it."""
    run = await me.running()
    before = await me.store.now_ms()
    sent = rows.message(run, '{"π":1}', topic="news")
    assert kinds(await me.store.send([rows.sending(sent)])) == [WRITTEN]
    (found,) = await messages(site)
    assert before <= found.pop("created_at_epoch_ms") <= await me.store.now_ms()
    assert found == {
        "message_uuid": sent.message_id,
        "destination_uuid": run.workflow_id,
        "topic": "news",
        "message": '{"π":1}',
        "serialization": "portable_json",
        "consumed": False,
        "consumed_by_function_id": None,
    }


@pytest.mark.parametrize("state", ["ENQUEUED", "SUCCESS", "CANCELLED", "ODD"])
async def test_a_message_reaches_a_workflow_in_any_state(
    site: Site, me: Process, state: str
) -> None:
    """“a destination does not exist” is the only thing that speaks against one."""
    other = await site.foreign(status=state)
    assert kinds(await me.store.send([rows.sending(rows.message(other))])) == [WRITTEN]


async def test_a_caller_records_its_step_with_the_messages(site: Site, me: Process) -> None:
    """“together with its caller's step row”."""
    run, other = await me.running(), await me.running()
    step = rows.checkpoint(run, 4, name="send", output=None, serialization=None)
    item = rows.sending(rows.message(other), rows.message(run), caller=step)
    assert kinds(await me.store.send([item])) == [WRITTEN]
    assert (await me.store.history([run.workflow_id]))[run.workflow_id] == [recorded_step(step)]
    assert len(await messages(site)) == 2


async def test_a_caller_may_send_nothing(site: Site, me: Process) -> None:
    """“Per item: *written*”: also of no message at all."""
    run = await me.running()
    assert kinds(await me.store.send([rows.sending(caller=rows.checkpoint(run))])) == [WRITTEN]
    assert len(await site.steps(run.workflow_id)) == 1


async def test_a_repeated_send_is_mine(site: Site, me: Process) -> None:
    """“*mine*: the caller's row stands as by `StepStore.record`, or, without a caller, every
    message stands under its id”."""
    run = await me.running()
    batch = [
        rows.sending(rows.message(run), rows.message(run)),
        rows.sending(rows.message(run), caller=rows.checkpoint(run)),
    ]
    assert kinds(await me.store.send(batch)) == [WRITTEN, WRITTEN]
    before = await messages(site)
    assert kinds(await me.store.send(batch)) == [MINE, MINE]
    await me.cancel([run.workflow_id])
    assert kinds(await me.store.send(batch)) == [MINE, MINE]
    assert await messages(site) == before


async def test_a_message_that_was_consumed_since_is_mine(site: Site, me: Process) -> None:
    """“every message stands under its id (also one that was consumed since)”."""
    run = await me.running()
    item = rows.sending(rows.message(run))
    await me.store.send([item])
    assert await received(me, run, 1) == ['"hello"']
    assert kinds(await me.store.send([item])) == [MINE]
    assert len(await messages(site)) == 1


async def test_a_message_that_stands_is_left_as_it_is(site: Site, me: Process) -> None:
    """“A message whose id stands already is left as it is and counts as written with its
    neighbours”."""
    run = await me.running()
    first = rows.message(run, '"first"')
    await me.store.send([rows.sending(first)])
    again, fresh = first._replace(message='"second"'), rows.message(run, '"fresh"')
    assert kinds(await me.store.send([rows.sending(again, fresh)])) == [WRITTEN]
    assert [row["message"] for row in await messages(site)] == ['"first"', '"fresh"']


async def test_a_message_twice_in_a_batch_stands_once(site: Site, me: Process) -> None:
    """“an idempotency key holds for one destination, for ever”: also within a batch."""
    run = await me.running()
    sent = rows.message(run)
    assert kinds(await me.store.send([rows.sending(sent), rows.sending(sent)])) == [WRITTEN, MINE]
    assert len(await messages(site)) == 1


async def test_missing_destinations_are_named_for_each_item(site: Site, me: Process) -> None:
    """“*conflict*: a destination does not exist, and `standing` is the set of those that do
    not”: “Nothing is written but for *written*”."""
    run = await me.running()
    nobody, nowhere = rows.wid(), rows.wid()
    answers = await me.store.send(
        [
            rows.sending(rows.message(run, '"1"')),
            rows.sending(rows.message(nobody), rows.message(run), rows.message(nowhere)),
            rows.sending(rows.message(nobody), caller=rows.checkpoint(run)),
            rows.sending(rows.message(run, '"2"'), caller=rows.checkpoint(run, 2)),
        ]
    )
    assert kinds(answers) == [WRITTEN, CONFLICT, CONFLICT, WRITTEN]
    assert answers[1].standing == {nobody, nowhere}
    assert answers[2].standing == {nobody}
    assert [row["message"] for row in await messages(site)] == ['"1"', '"2"']
    assert [step["function_id"] for step in await site.steps(run.workflow_id)] == [2]


async def test_another_record_in_the_callers_place_is_shown(site: Site, me: Process) -> None:
    """“or the caller's step id holds another record, which `standing` shows”."""
    run = await me.running()
    other = rows.checkpoint(run, 1, name="other")
    await me.store.record([other])
    item = rows.sending(rows.message(run), caller=rows.checkpoint(run, 1))
    (answer,) = await me.store.send([item])
    assert (answer.kind, answer.standing) == (CONFLICT, recorded_step(other))
    assert await messages(site) == []


@pytest.mark.parametrize("how", ["wrong owner", "gone", "cancelled"])
async def test_a_caller_that_lost_its_run_sends_nothing(site: Site, me: Process, how: str) -> None:
    """“*busy* and *lost*: as for `StepStore.record`, about the caller's run”."""
    run, other = await me.running(), await me.running()
    fence = rows.fence_of(run)
    if how == "wrong owner":
        fence = Fence(run.workflow_id, rows.token())
    elif how == "gone":
        fence = Fence(rows.wid(), run.creator)
    else:
        await me.cancel([run.workflow_id])
    item = rows.sending(rows.message(other), caller=rows.checkpoint(fence))
    beside = rows.sending(rows.message(other, '"beside"'))
    assert kinds(await me.store.send([item, beside])) == [LOST, WRITTEN]
    assert [row["message"] for row in await messages(site)] == ['"beside"']
    assert await site.steps(fence.workflow_id) == []


async def test_two_sends_of_one_step_in_a_batch(site: Site, me: Process) -> None:
    """“*mine*: the caller's row stands as by `StepStore.record`”: the messages of the first."""
    run = await me.running()
    step = rows.checkpoint(run)
    batch = [rows.sending(rows.message(run, text), caller=step) for text in ("1", "2")]
    assert kinds(await me.store.send(batch)) == [WRITTEN, MINE]
    assert [row["message"] for row in await messages(site)] == ["1"]


async def test_a_value_the_database_cannot_store_sends_nothing(site: Site, me: Process) -> None:
    """“`DatabaseRejected` may not” be retried: and nothing of the batch is written."""
    run = await me.running()
    batch = [rows.sending(rows.message(run)), rows.sending(rows.message(run, "\ud800"))]
    with pytest.raises(DatabaseRejected):
        await me.store.send(batch)
    assert await messages(site) == []


async def test_empty_batches_have_no_answers(me: Process) -> None:
    """“Per item”."""
    assert await me.store.send([]) == []
    assert await me.store.receive([]) == []
    assert await me.store.topics_with_messages([]) == []


async def forks(site: Site, origin: WorkflowId) -> list[WorkflowId]:
    """A fork, a fork of it, and another one; and a workflow that is none."""
    first = await site.foreign(forked_from=origin)
    second = await site.foreign(forked_from=first)
    third = await site.foreign(forked_from=origin)
    await site.foreign(parent_workflow_id=origin)
    return [first, second, third]


async def test_a_message_reaches_forks_when_asked(site: Site, me: Process) -> None:
    """“each also goes to every workflow that was forked from its destination, directly or through
    other forks”."""
    run = await me.running()
    family = [run.workflow_id, *await forks(site, run.workflow_id)]
    await me.store.send([rows.sending(rows.message(run, '"alone"'))])
    sent = rows.message(run, '"all"', message_id=f"key::{run.workflow_id}")
    keyless = rows.message(run, '"all"')
    for item in (rows.sending(sent, to_forks=True), rows.sending(keyless, to_forks=True)):
        assert kinds(await me.store.send([item])) == [WRITTEN]
        assert kinds(await me.store.send([item])) == [MINE]
    found = await messages(site)
    assert {row["destination_uuid"] for row in found if row["message"] == '"alone"'} == {
        run.workflow_id
    }
    to_all = [row for row in found if row["message"] == '"all"']
    assert sorted(row["destination_uuid"] for row in to_all) == sorted(family * 2)
    ids = {row["message_uuid"] for row in to_all}
    assert {f"key::{each}" for each in family} < ids
    assert keyless.message_id in ids
    assert len(ids) == len(to_all)


async def test_forks_that_lead_back_end_somewhere(site: Site, me: Process) -> None:
    """“directly or through other forks”: whatever other programs wrote."""
    run = await me.running()
    fork = await site.foreign(forked_from=run.workflow_id)
    await site.update(run.workflow_id, forked_from=fork)
    item = rows.sending(rows.message(run), rows.message(fork), to_forks=True)
    assert kinds(await me.store.send([item])) == [WRITTEN]
    found = [row["destination_uuid"] for row in await messages(site)]
    assert sorted(found) == sorted([run.workflow_id, fork] * 2)


async def test_some_of_a_batch_go_to_forks(site: Site, me: Process) -> None:
    """“With `to_forks`”: each item for itself."""
    run = await me.running()
    (first, *_) = await forks(site, run.workflow_id)
    batch = [
        rows.sending(rows.message(run, '"1"')),
        rows.sending(rows.message(run, '"2"'), to_forks=True),
        rows.sending(rows.message(rows.wid()), to_forks=True),
    ]
    assert kinds(await me.store.send(batch)) == [WRITTEN, WRITTEN, CONFLICT]
    assert [row["message"] for row in await messages(site) if row["destination_uuid"] == first] == [
        '"2"'
    ]


async def test_messages_come_in_the_order_they_were_sent(site: Site, me: Process) -> None:
    """“later than every other message of that destination and topic that stands”: however many
    are sent in a millisecond, and whatever their ids."""
    run = await me.running()
    numbers = list(range(40))
    for number in numbers[:20]:
        sent = rows.message(run, str(number), message_id=f"{100 - number:03}")
        await me.store.send([rows.sending(sent)])
    batch = [
        rows.sending(rows.message(run, str(number), message_id=f"{100 - number:03}"))
        for number in numbers[20:30]
    ]
    await me.store.send(batch)
    await me.store.send([rows.sending(*[rows.message(run, str(n)) for n in numbers[30:]])])
    assert await received(me, run, 41) == [*map(str, numbers), None]
    times = [row["created_at_epoch_ms"] for row in await messages(site)]
    assert len(set(times)) == len(times)


async def test_the_clock_runs_ahead_within_a_topic_only(site: Site, me: Process) -> None:
    """“within a destination and topic”: others are created when they are."""
    run, other = await me.running(), await me.running()
    ahead = await me.store.now_ms() + 1_000_000
    for topic in ("a", "b"):
        await me.store.send([rows.sending(rows.message(run, topic=topic))])
    await site.backdoor.run(
        "UPDATE notifications SET created_at_epoch_ms = ? WHERE topic = 'a'", ahead
    )
    batch = [rows.message(run, topic="a"), rows.message(run, topic="b"), rows.message(other)]
    await me.store.send([rows.sending(*batch)])
    times = {row["message_uuid"]: row["created_at_epoch_ms"] for row in await messages(site)}
    assert times[batch[0].message_id] == ahead + 1
    assert times[batch[1].message_id] < ahead
    assert times[batch[2].message_id] < ahead


async def test_equal_times_are_told_apart_by_the_message_id(site: Site, me: Process) -> None:
    """“the first by (created_at, message id)”: of messages that other programs sent."""
    run = await me.running()
    for name in ("b", "A", "a", "é", "B"):
        await site.insert(
            "notifications",
            message_uuid=name,
            destination_uuid=run.workflow_id,
            topic=NULL_TOPIC,
            message=name,
            created_at_epoch_ms=1,
        )
    assert await received(me, run, 5) == ["A", "B", "a", "b", "é"]


async def test_a_received_message_is_the_output_of_its_step(site: Site, me: Process) -> None:
    """“the step's row is inserted with the message as its output and the message's label as its
    own (…), and the row of the time limit with it”."""
    run = await me.running()
    await me.store.send([rows.sending(rows.message(run, '"m"', topic="t", serialization="odd"))])
    deadline = rows.checkpoint(run, 8, name=SLEEP, output="12.5")
    item = rows.receiving(run, 7, "t")._replace(deadline=deadline)
    (answer,) = await me.store.receive([item])
    step = recorded_step(item.taken._replace(output='"m"', serialization="odd"))
    assert (answer.kind, answer.standing) == (WRITTEN, step)
    history = (await me.store.history([run.workflow_id]))[run.workflow_id]
    assert history == [step, recorded_step(deadline)]
    (found,) = await messages(site)
    assert (found["consumed"], found["consumed_by_function_id"]) == (True, 7)
    assert found["message"] == '"m"'


async def test_a_message_without_a_label_leaves_the_step_without(site: Site, me: Process) -> None:
    """“(an unlabelled message leaves it unlabelled)”."""
    run = await me.running()
    await site.insert(
        "notifications",
        message_uuid="m",
        destination_uuid=run.workflow_id,
        topic=NULL_TOPIC,
        message="text",
    )
    (answer,) = await me.store.receive([rows.receiving(run)])
    assert answer.standing is not None
    assert (answer.standing.output, answer.standing.serialization) == ("text", None)


async def test_without_a_message_nothing_is_written(site: Site, me: Process) -> None:
    """“*written* without: there was none, and nothing was written”: of that topic, to that run."""
    run, other = await me.running(), await me.running()
    sent = [rows.message(run, topic="other"), rows.message(other)]
    await me.store.send([rows.sending(*sent)])
    deadline = rows.checkpoint(run, 2, name=SLEEP)
    (answer,) = await me.store.receive([rows.receiving(run)._replace(deadline=deadline)])
    assert (answer.kind, answer.standing) == (WRITTEN, None)
    assert await site.steps(run.workflow_id) == []
    assert not any(row["consumed"] for row in await messages(site))


async def test_a_time_limit_that_stands_is_left(site: Site, me: Process) -> None:
    """“the row of the time limit with it”: which stands where the run waited before."""
    run = await me.running()
    deadline = rows.checkpoint(run, 2, name=SLEEP, output="1.0")
    await me.store.record([deadline])
    await me.store.send([rows.sending(rows.message(run))])
    later = rows.checkpoint(run, 2, name=SLEEP, output="2.0")
    assert kinds(await me.store.receive([rows.receiving(run)._replace(deadline=later)])) == [
        WRITTEN
    ]
    assert [step["output"] for step in await site.steps(run.workflow_id)] == ['"hello"', "1.0"]


async def test_a_repeated_receive_is_mine_and_shows_the_message(site: Site, me: Process) -> None:
    """“*mine*: the step id holds a row of that name (a repeated try's, shown in `standing`)”."""
    run = await me.running()
    await me.store.send([rows.sending(rows.message(run, "1"), rows.message(run, "2"))])
    item = rows.receiving(run)
    (first,) = await me.store.receive([item])
    later = item._replace(taken=item.taken._replace(completed_at_ms=9))
    for repeated in (item, later):
        (answer,) = await me.store.receive([repeated])
        assert (answer.kind, answer.standing) == (MINE, first.standing)
    await me.cancel([run.workflow_id])
    assert kinds(await me.store.receive([item])) == [MINE]
    assert [row["consumed"] for row in await messages(site)] == [True, False]


async def test_another_record_in_a_receivers_place_is_shown(site: Site, me: Process) -> None:
    """“*conflict*, *busy*, *lost*: as for `record`”."""
    run = await me.running()
    other = rows.checkpoint(run, name="other")
    await me.store.record([other])
    await me.store.send([rows.sending(rows.message(run))])
    (answer,) = await me.store.receive([rows.receiving(run)])
    assert (answer.kind, answer.standing) == (CONFLICT, recorded_step(other))
    assert await received(me, run, 1) == ['"hello"']


async def test_a_receiver_that_lost_its_run_takes_nothing(site: Site, me: Process) -> None:
    """“The run is fenced as by `StepStore.record`”."""
    run = await me.running()
    await me.store.send([rows.sending(rows.message(run))])
    stale = Fence(run.workflow_id, rows.token())
    gone = Fence(rows.wid(), rows.token())
    answers = await me.store.receive([rows.receiving(stale), rows.receiving(gone)])
    assert kinds(answers) == [LOST, LOST]
    assert await received(me, run, 1) == ['"hello"']


async def test_two_receivers_of_a_batch_take_different_messages(site: Site, me: Process) -> None:
    """“Two items of one run and topic take different messages”: in the order of the items."""
    one, two = await me.running(), await me.running()
    for text in ("1", "2"):
        await me.store.send([rows.sending(rows.message(one, text), rows.message(two, text))])
    batch = [rows.receiving(run, step) for step in (1, 2, 3) for run in (two, one)]
    answers = await me.store.receive(batch)
    assert kinds(answers) == [WRITTEN] * 6
    found = [answer.standing.output if answer.standing else None for answer in answers]
    assert found == ["1", "1", "2", "2", None, None]
    by_step = [(row["message"], row["consumed_by_function_id"]) for row in await messages(site)]
    assert sorted(by_step) == [("1", 1), ("1", 1), ("2", 2), ("2", 2)]


async def test_one_batch_of_receivers_can_hold_every_answer(site: Site, me: Process) -> None:
    """Answers in the order of the items, and a bad one costs its neighbours nothing."""
    run, other, lost = await me.running(), await me.running(), await me.running()
    await me.store.record([rows.checkpoint(run, 1, name="x"), rows.checkpoint(run, 2, name="r")])
    await me.store.send([rows.sending(rows.message(run), rows.message(lost))])
    await me.cancel([lost.workflow_id])
    batch: list[Receiving] = [
        rows.receiving(lost),
        rows.receiving(run, 1),
        rows.receiving(other),
        rows.receiving(run, 2, name="r"),
        rows.receiving(run, 3),
        rows.receiving(run, 3),
    ]
    answers = await me.store.receive(batch)
    assert kinds(answers) == [LOST, CONFLICT, WRITTEN, MINE, WRITTEN, MINE]
    assert answers[2].standing is None
    assert answers[4].standing == answers[5].standing


async def test_many_messages_of_many_runs_in_one_batch(site: Site, me: Process) -> None:
    """“Store messages”, “Take the oldest message of a topic for a run”: a thousand at once."""
    runs = [rows.direct() for _ in range(50)]
    await me.start(*runs)
    sent = [rows.sending(rows.message(run, str(n))) for n in range(20) for run in runs]
    assert kinds(await me.store.send(sent)) == [WRITTEN] * 1000
    batch = [rows.receiving(run, 1 + n) for n in range(20) for run in reversed(runs)]
    answers = await me.store.receive(batch)
    for item, answer in zip(batch, answers, strict=True):
        assert answer.standing is not None
        assert answer.standing.output == str(item.taken.step_id - 1)


async def test_topics_with_messages_are_told(site: Site, me: Process) -> None:
    """“Of these topics, those with a message that is not consumed”."""
    run, other = await me.running(), await me.running()
    await me.store.send([rows.sending(rows.message(run, topic="a"), rows.message(run, topic="b"))])
    await me.store.receive([rows.receiving(run, 1, "b")])
    asked = [
        Topic(run.workflow_id, "b"),
        Topic(other.workflow_id, "a"),
        Topic(run.workflow_id, "a"),
        Topic(rows.wid(), "a"),
        Topic(run.workflow_id, NULL_TOPIC),
        Topic(run.workflow_id, "a"),
    ]
    assert await me.store.topics_with_messages(asked) == [Topic(run.workflow_id, "a")]


@pytest.mark.parametrize("text", ["", "'", "☃ 😀", "a::b", "[1]", '{"a":null}', "%_\\"])
async def test_topics_may_be_any_text(me: Process, text: str) -> None:
    """“`topic` is as stored”: no character has a meaning."""
    run = await me.running(f"{text or 'x'} run")
    await me.store.send([rows.sending(rows.message(run, text, topic=text))])
    topic = Topic(run.workflow_id, text)
    assert await me.store.topics_with_messages([topic]) == [topic]
    assert await received(me, run, 1, topic=text) == [text]
