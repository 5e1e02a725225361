"""Why a workflow does not run: one cause, told in one sentence, whatever the circumstances."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.logic.explaining import Cause, Explanation, explain
from perdure.model.circumstances import Circumstances
from perdure.model.ids import ExecutorId, WorkflowId
from perdure.model.lease import ProcessSeen, Serves
from perdure.model.queue import QueueLimits, QueueRow, QueueSettings, Rate, Usage
from perdure.model.status import WorkflowState
from perdure.model.wire import INTERNAL_QUEUE
from perdure.model.workflow import WorkflowKey, WorkflowRow

NOW_MS = 1_700_000_000_000
AT_NOW = "2023-11-14 22:13:20 UTC"
MINUTE_MS = 60_000

ROW = WorkflowRow(
    workflow_id=WorkflowId("clip-7"),
    state=WorkflowState.ENQUEUED,
    key=WorkflowKey("convert"),
    attempts=0,
    queue_name="media",
    priority=0,
    partition_key=None,
    deduplication_id=None,
    executor_id="local/boot-submitter",
    application_name="shop",
    application_version="v1",
    application_id=None,
    created_at_ms=NOW_MS - MINUTE_MS,
    updated_at_ms=NOW_MS - MINUTE_MS,
    started_at_ms=None,
    completed_at_ms=None,
    delay_until_ms=None,
    timeout_ms=None,
    deadline_ms=None,
    parent_workflow_id=None,
    forked_from=None,
    was_forked_from=False,
    schedule_name=None,
    authenticated_user=None,
    authenticated_roles=None,
    assumed_role=None,
    attributes=None,
    serialization="portable_json",
    owner=None,
)

SETTINGS = QueueSettings(name="media")
QUEUE = QueueRow(
    settings=SETTINGS, application_name="shop", paused_at_ms=None, created_at_ms=1, updated_at_ms=1
)


def process(
    name: str,
    *,
    version: str = "v1",
    queues: tuple[str, ...] | None = None,
    functions: tuple[str, ...] = ("convert",),
) -> ProcessSeen:
    return ProcessSeen(ExecutorId(name), Serves(version, queues, functions))


A, B = process("a/boot-1"), process("b/boot-2")

READY = Circumstances(
    now_ms=NOW_MS,
    row=ROW,
    queue=QUEUE,
    running=(),
    usage=Usage(),
    partition_running=(),
    partition_usage=Usage(),
    ahead=0,
    processes=(A, B),
    latest_version="v1",
)
"""Nothing holds this one back."""


def of(**columns: Any) -> Circumstances:
    """The same, but for these columns of the row."""
    return replace(READY, row=replace(ROW, **columns))


def limited(found: Circumstances = READY, /, **limits: Any) -> Circumstances:
    """The same in a queue with these limits, which is partitioned if one is a partition's."""
    settings = replace(SETTINGS, limits=QueueLimits(**limits))
    if settings.limits.of_partitions:
        settings = replace(settings, partitioned=True)
        found = replace(found, row=replace(found.row, partition_key="ada"))
    return replace(found, queue=replace(QUEUE, settings=settings))


def told(found: Circumstances, cause: Cause) -> str:
    explanation = explain(found)
    assert explanation.cause is cause, explanation
    return explanation.text


def test_what_is_about_to_start() -> None:
    assert told(READY, Cause.ABOUT_TO_START) == (
        "Nothing holds it back: it is about to start. If it does not, look into the logs of what "
        "can run it: a/boot-1, b/boot-2."
    )


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("SUCCESS", "It succeeded at 2023-11-14 22:12:20 UTC (1 min 0 s ago)."),
        ("ERROR", "`perdure workflow get clip-7` shows the error."),
        ("CANCELLED", "It was cancelled at 2023-11-14 22:12:20 UTC (1 min 0 s ago), "),
        ("MAX_RECOVERY_ATTEMPTS_EXCEEDED", "after 101 attempts without an outcome"),
    ],
)
def test_what_ended_is_told_how_and_when_before_all_else(state: str, said: str) -> None:
    ended = of(
        state=WorkflowState(state), completed_at_ms=NOW_MS - MINUTE_MS, attempts=101, deadline_ms=5
    )
    assert said in told(replace(ended, queue=None, processes=()), Cause.ENDED)


def test_a_passed_deadline_comes_before_what_else_is_wrong() -> None:
    late = of(deadline_ms=NOW_MS - 200, delay_until_ms=NOW_MS + 1, state=WorkflowState.DELAYED)
    assert told(late, Cause.DEADLINE_PASSED) == (
        "Its deadline passed at 2023-11-14 22:13:19 UTC (200 ms ago); it is cancelled within "
        "moments."
    )
    assert "start one" in told(replace(late, processes=()), Cause.DEADLINE_PASSED)
    assert explain(of(deadline_ms=NOW_MS + 1)).cause is Cause.ABOUT_TO_START


def test_what_runs_is_told_where_and_since_when() -> None:
    running = of(
        state=WorkflowState.PENDING, executor_id="b/boot-2", started_at_ms=NOW_MS - MINUTE_MS
    )
    explanation = explain(replace(running, queue=None))
    assert (explanation.cause, explanation.holders) == (Cause.RUNNING, (("b/boot-2", 1),))
    assert explanation.text == (
        "It runs on b/boot-2 since 2023-11-14 22:12:20 UTC (1 min 0 s ago); `perdure workflow "
        "steps clip-7` shows what it has recorded."
    )


def test_a_direct_start_runs_since_it_was_created() -> None:
    running = of(state=WorkflowState.PENDING, executor_id="a/boot-1", queue_name=None)
    assert "22:12:20 UTC (1 min 0 s ago)" in told(running, Cause.RUNNING)


def test_what_a_dead_process_ran_is_taken_over() -> None:
    left = of(state=WorkflowState.PENDING, executor_id="c/boot-9", started_at_ms=NOW_MS - 1)
    text = told(left, Cause.OWNER_DEAD)
    assert "c/boot-9" in text
    assert "takes it over" in text
    assert "start one" in told(replace(left, processes=()), Cause.OWNER_DEAD)


@pytest.mark.parametrize(("executor", "name"), [("local", "local"), (None, "nobody")])
def test_what_another_sdk_runs_is_left_to_it(executor: str | None, name: str) -> None:
    foreign = of(state=WorkflowState.PENDING, executor_id=executor)
    text = told(foreign, Cause.OWNER_FOREIGN)
    assert f"in the name of {name}, which is no process of Perdure" in text


def test_a_delay_is_told_with_its_end() -> None:
    delayed = of(state=WorkflowState.DELAYED, delay_until_ms=NOW_MS + 3 * MINUTE_MS)
    explanation = explain(replace(delayed, processes=()))
    assert explanation == Explanation(
        Cause.DELAYED,
        "It is delayed until 2023-11-14 22:16:20 UTC (in 3 min 0 s).",
        NOW_MS + 3 * MINUTE_MS,
    )


def test_a_run_given_back_is_told_with_its_attempts() -> None:
    delayed = of(state=WorkflowState.DELAYED, delay_until_ms=NOW_MS + 10, attempts=2)
    assert told(delayed, Cause.DELAYED).endswith(", after 2 attempts without an outcome.")


def test_a_delay_that_is_over_holds_nothing_back() -> None:
    due = of(state=WorkflowState.DELAYED, delay_until_ms=NOW_MS)
    assert explain(due).cause is Cause.ABOUT_TO_START
    assert explain(replace(due, processes=())).cause is Cause.NO_PROCESS


def test_a_delay_without_an_end_is_said() -> None:
    told(of(state=WorkflowState.DELAYED), Cause.DELAYED)


def test_a_queue_that_nobody_registered() -> None:
    text = told(replace(READY, queue=None, processes=()), Cause.QUEUE_UNKNOWN)
    assert text.startswith("Queue 'media' is not registered, so that no process serves it;")


def test_a_queue_of_another_application() -> None:
    foreign = replace(READY, queue=replace(QUEUE, application_name="bank"))
    assert "belongs to application 'bank'" in told(foreign, Cause.QUEUE_UNKNOWN)
    nobodys = replace(READY, queue=replace(QUEUE, application_name=None))
    assert explain(nobodys).cause is Cause.ABOUT_TO_START


def test_no_queue_at_all() -> None:
    told(replace(of(queue_name=None), queue=None), Cause.QUEUE_UNKNOWN)


def test_the_internal_queue_needs_no_registration_and_no_listener() -> None:
    listening = process("a/boot-1", queues=("media",))
    recovered = replace(of(queue_name=INTERNAL_QUEUE), queue=None, processes=(listening,))
    assert explain(recovered).cause is Cause.ABOUT_TO_START


def test_a_missing_partition_key_is_worse_than_a_pause() -> None:
    queue = replace(QUEUE, settings=replace(SETTINGS, partitioned=True), paused_at_ms=1)
    assert "with a partition_key" in told(replace(READY, queue=queue), Cause.PARTITION_KEY_MISSING)


def test_a_pause_is_told_with_the_command_that_ends_it() -> None:
    queue = replace(QUEUE, settings=replace(SETTINGS, name="my media"), paused_at_ms=NOW_MS)
    assert told(replace(READY, queue=queue, processes=()), Cause.QUEUE_PAUSED) == (
        f"Queue 'my media' is paused since {AT_NOW} (0 ms ago); `perdure queue resume 'my media'` "
        "lets it go on."
    )


def test_no_living_process() -> None:
    found = replace(READY, processes=())
    assert told(found, Cause.NO_PROCESS) == "No process of application 'shop' is alive: start one."


def test_no_process_listens() -> None:
    found = replace(READY, processes=(process("a/boot-1", queues=("mail", "sms")),))
    assert told(found, Cause.QUEUE_NOT_SERVED) == (
        "No living process serves queue 'media': a/boot-1 serves mail, sms; start one that does, "
        "or add it to Engine(listen=[...])."
    )


def test_a_version_that_nobody_has() -> None:
    found = replace(READY, processes=(process("a/boot-1", version="v2"),), latest_version="v2")
    text = told(found, Cause.VERSION_NOT_SERVED)
    assert "'v1' (alive: v2)" in text
    assert text.endswith("start one with Engine(version='v1').")


def test_without_a_version_the_latest_one_runs_it() -> None:
    unversioned = of(application_version=None)
    assert explain(unversioned).cause is Cause.ABOUT_TO_START
    text = told(replace(unversioned, latest_version="v3"), Cause.VERSION_NOT_SERVED)
    assert "(latest: v3; alive: v1)" in text
    text = told(replace(unversioned, latest_version=None), Cause.VERSION_NOT_SERVED)
    assert "(latest: none; alive: v1)" in text


def test_a_function_that_nobody_has() -> None:
    other = process("a/boot-1", functions=("shrink",))
    newer = process("b/boot-2", version="v2")
    text = told(replace(READY, processes=(other, newer)), Cause.FUNCTION_NOT_SERVED)
    assert "(a/boot-1) has the function 'convert';" in text


def test_a_process_that_does_not_say_what_it_serves_may_serve_anything() -> None:
    silent = ProcessSeen(ExecutorId("old/boot-3"), None)
    assert explain(replace(READY, processes=(silent,))).cause is Cause.ABOUT_TO_START


def test_the_global_limit_is_told_with_those_who_use_it() -> None:
    shares = (("a/boot-1", 3), ("b/boot-2", 2), ("c/boot-3", 1), ("d/boot-4", 1), ("e/boot-5", 1))
    full = replace(READY, running=shares, usage=Usage(pending=8), ahead=1)
    explanation = explain(limited(full, concurrency=8, worker=3))
    assert explanation == Explanation(
        Cause.GLOBAL_CONCURRENCY,
        "Queue 'media' runs as many as its global_concurrency allows: 8 of 8, 3 on a/boot-1, 2 on "
        "b/boot-2, 1 on c/boot-3 and 2 more; 1 workflow comes before it.",
        holders=shares,
    )
    assert explain(limited(full, concurrency=9)).cause is Cause.BEHIND_OTHERS


def test_the_rate_is_told_with_the_end_of_its_window() -> None:
    used = replace(READY, usage=Usage(claims=5, frees_at_ms=NOW_MS + 200))
    explanation = explain(limited(used, rate=Rate(5, 0.5)))
    assert explanation == Explanation(
        Cause.RATE_LIMIT,
        "Queue 'media' has started 5 within 0.5 s, and its rate_limit allows 5; there is room "
        f"again at {AT_NOW} (in 200 ms).",
        NOW_MS + 200,
    )
    assert explain(limited(used, rate=Rate(6, 0.5))).cause is Cause.ABOUT_TO_START


def test_the_limits_of_its_partition() -> None:
    full = replace(
        READY,
        partition_running=(("a/boot-1", 2),),
        partition_usage=Usage(pending=2, claims=3, frees_at_ms=NOW_MS + 10),
    )
    text = told(limited(full, partition_concurrency=2), Cause.PARTITION_CONCURRENCY)
    assert text == (
        "Partition 'ada' of queue 'media' runs as many as its partition_concurrency allows: "
        "2 of 2, 2 on a/boot-1."
    )
    told(limited(full, partition_rate=Rate(3, 1)), Cause.PARTITION_RATE_LIMIT)
    assert explain(limited(full, partition_concurrency=3)).cause is Cause.ABOUT_TO_START


def test_worker_limits_bind_when_every_process_that_could_is_full() -> None:
    full = replace(READY, running=(("a/boot-1", 2), ("b/boot-2", 2)), ahead=1_000)
    explanation = explain(limited(full, worker=2))
    assert explanation == Explanation(
        Cause.WORKER_CONCURRENCY,
        "Every living process that could run it is at its worker_concurrency of 2 in queue "
        "'media': 2 on a/boot-1, 2 on b/boot-2; 1,000 or more workflows come before it.",
        holders=full.running,
    )
    one_free = replace(full, running=(("a/boot-1", 2), ("c/boot-3", 2)))
    assert explain(limited(one_free, worker=2)).cause is Cause.BEHIND_OTHERS
    other_version = replace(one_free, processes=(A, process("b/boot-2", version="v2")))
    assert explain(limited(other_version, worker=2)).cause is Cause.WORKER_CONCURRENCY


def test_worker_limits_of_its_partition() -> None:
    full = replace(READY, partition_running=(("a/boot-1", 1), ("b/boot-2", 1)))
    text = told(limited(full, partition_worker=1), Cause.PARTITION_WORKER_CONCURRENCY)
    assert "in partition 'ada' of queue 'media': 1 on a/boot-1, 1 on b/boot-2" in text


def test_others_that_come_first() -> None:
    assert told(replace(READY, running=(("a/boot-1", 3),), ahead=12), Cause.BEHIND_OTHERS) == (
        "12 workflows come before it in queue 'media', where 3 run now."
    )


_MOMENTS = st.none() | st.sampled_from([NOW_MS - MINUTE_MS, NOW_MS, NOW_MS + MINUTE_MS, 2**63 - 1])
_TEXTS = st.none() | st.sampled_from(["media", "mail", INTERNAL_QUEUE, "v1", "two\nlines"])
_NAMES = ["a/boot-1", "b/boot-2", "c/boot-3", "local"]
_EXECUTORS = st.sampled_from(_NAMES)
_SHARES = st.fixed_dictionaries({}, optional={name: st.integers(1, 3) for name in _NAMES}).map(
    lambda shares: list(shares.items())
)
_COUNTS = st.none() | st.integers(1, 3)
_RATES = st.none() | st.builds(Rate, st.integers(1, 3), st.sampled_from([0.5, 3600]))
_USAGES = st.builds(
    Usage, pending=st.integers(0, 4), claims=st.integers(0, 4), frees_at_ms=_MOMENTS
)

_ROWS = st.builds(
    replace,
    st.just(ROW),
    state=st.sampled_from(WorkflowState),
    attempts=st.integers(0, 3),
    queue_name=_TEXTS,
    partition_key=_TEXTS,
    executor_id=st.none() | _EXECUTORS,
    application_name=_TEXTS,
    application_version=_TEXTS,
    started_at_ms=_MOMENTS,
    completed_at_ms=_MOMENTS,
    delay_until_ms=_MOMENTS,
    deadline_ms=_MOMENTS,
)
_QUEUES = st.builds(
    QueueRow,
    settings=st.builds(
        QueueSettings,
        name=st.just("media"),
        limits=st.builds(
            QueueLimits,
            worker=_COUNTS,
            concurrency=_COUNTS,
            rate=_RATES,
            partition_worker=_COUNTS,
            partition_concurrency=_COUNTS,
            partition_rate=_RATES,
        ),
        partitioned=st.booleans(),
    ),
    application_name=_TEXTS,
    paused_at_ms=_MOMENTS,
    created_at_ms=st.just(1),
    updated_at_ms=st.just(1),
)
_PROCESSES = st.builds(
    ProcessSeen,
    _EXECUTORS.map(ExecutorId),
    st.none()
    | st.builds(
        Serves,
        st.sampled_from(["v1", "v2"]),
        st.none() | st.lists(st.sampled_from(["media", "mail"])).map(tuple),
        st.lists(st.sampled_from(["convert", "shrink"])).map(tuple),
    ),
)
_CIRCUMSTANCES = st.builds(
    Circumstances,
    now_ms=st.just(NOW_MS),
    row=_ROWS,
    queue=st.none() | _QUEUES,
    running=_SHARES.map(tuple),
    usage=_USAGES,
    partition_running=_SHARES.map(tuple),
    partition_usage=_USAGES,
    ahead=st.integers(0, 2_000),
    processes=st.lists(_PROCESSES, max_size=3).map(tuple),
    latest_version=_TEXTS,
)


@given(_CIRCUMSTANCES)
def test_whatever_the_circumstances_there_is_one_cause_in_one_sentence(
    found: Circumstances,
) -> None:
    explanation = explain(found)
    assert isinstance(explanation.cause, Cause)
    assert explanation.text[:1].isupper() or explanation.text[:1].isdigit()
    assert explanation.text.endswith(".")
    assert "\n" not in explanation.text
    assert "None" not in explanation.text
    state = found.row.state
    assert (explanation.cause is Cause.ENDED) is state.is_terminal
    if explanation.cause in {Cause.RUNNING, Cause.OWNER_DEAD, Cause.OWNER_FOREIGN}:
        assert state is WorkflowState.PENDING
    elif explanation.cause not in {Cause.ENDED, Cause.DEADLINE_PASSED}:
        assert state in {WorkflowState.ENQUEUED, WorkflowState.DELAYED}
