"""The questions about queues.

Rates of a drain are those between the first claim and the last outcome by the database's clock, so
that no side is asked how long it takes to come up. A figure that is a ratio compares a side with
itself: what is asked is how it behaves, not how fast the machine is.
"""

from benchmarks.questions import BOUND, DBOS, PERDURE, QUEUES, Question

QUEUE_QUESTIONS = (
    Question(
        "enqueue-1",
        "enqueues per second, one caller",
        "workflows/s",
        (PERDURE, BOUND, DBOS),
        higher=True,
        arguments={"workflows": 3000, "callers": 1},
        against={DBOS: 2},
        subject=QUEUES,
    ),
    Question(
        "enqueue-20",
        "enqueues per second, 20 callers",
        "workflows/s",
        (PERDURE, BOUND, DBOS),
        higher=True,
        arguments={"workflows": 20000, "callers": 20},
        against={DBOS: 6},
        subject=QUEUES,
    ),
    # The figure aimed at is 30,000 a second where the bare statements do 56,000.
    Question(
        "enqueue-bulk",
        "workflows per second of one call that enqueues 10,000",
        "workflows/s",
        (PERDURE, BOUND, DBOS),
        higher=True,
        arguments={"workflows": 10000},
        against={BOUND: 0.54},
        subject=QUEUES,
    ),
    Question(
        "drain",
        "queued no-op workflows per second, 5,000 of them, one worker process",
        "workflows/s",
        (PERDURE, BOUND, DBOS),
        higher=True,
        arguments={"workflows": 5000},
        against={DBOS: 4},
        subject=QUEUES,
    ),
    # What a second process can add is what the cores, which the server shares, have left to give. A
    # loop that only claims and ends keeps two cores busy from one process already, and gains little
    # from another: the absolute figure is for machines with more cores, and beside it stands what
    # the loop gains on the same machine, of which nine tenths are aimed at.
    Question(
        "drain-2",
        "the same with two worker processes, against one",
        "times one process",
        (PERDURE, BOUND),
        higher=True,
        arguments={"workflows": 10000},
        against={BOUND: 0.9},
        floor=1.3,
        subject=QUEUES,
    ),
    Question(
        "drain-limited",
        "drain with worker_concurrency=10: polling every second against every 10 ms",
        "times polling fast",
        (PERDURE, DBOS),
        higher=True,
        arguments={"workflows": 2000},
        floor=0.8,
        ceiling=1.25,
        subject=QUEUES,
    ),
    # The reference polls every 10 ms here, with a hundred times the idle statements; the bound is
    # an insert, a notification and a claim, each a round trip.
    Question(
        "enqueue-latency",
        "enqueue to the first line of user code in another process, queue idle: median",
        "ms",
        (PERDURE, BOUND, DBOS),
        higher=False,
        arguments={"workflows": 40},
        against={DBOS: 0.25, BOUND: 4},
        subject=QUEUES,
    ),
    Question(
        "idle-queue",
        "SQL statements per second of an idle process that serves a queue, without its heartbeat",
        "statements/s",
        (PERDURE, DBOS),
        higher=False,
        arguments={"seconds": 10},
        ceiling=1,
        subject=QUEUES,
    ),
    Question(
        "sqlite-drain",
        "SQLite: queued no-op workflows per second, one worker process",
        "workflows/s",
        (PERDURE, DBOS),
        higher=True,
        database="sqlite",
        arguments={"workflows": 5000},
        against={DBOS: 5},
        subject=QUEUES,
    ),
    Question(
        "claim-backlog",
        "time of a claim of 50 with {many:,} queued, against {few:,}",
        "times small backlog",
        (PERDURE,),
        higher=False,
        arguments={"few": 1_000, "many": 100_000},
        ceiling=1.5,
        subject=QUEUES,
        backlog="many",
    ),
    Question(
        "claim-backlog-shared",
        "the same with a concurrency that the fleet shares",
        "times small backlog",
        (PERDURE,),
        higher=False,
        arguments={"few": 1_000, "many": 100_000},
        ceiling=1.5,
        subject=QUEUES,
        backlog="many",
    ),
    Question(
        "claim-partitions",
        "time of a claim of 50 with {rows:,} queued in {many:,} partitions, against in {few:,}",
        "times few partitions",
        (PERDURE,),
        higher=False,
        arguments={"few": 100, "many": 10_000, "rows": 10_000},
        ceiling=1.5,
        subject=QUEUES,
        backlog="rows",
    ),
)
