"""The questions about talking: what is measured, and the ratio to reach.

Each value that is sent, published or returned is the time at which that began, and is compared with
the time at which it arrived; the next follows when the one before has arrived.
"""

from benchmarks.questions import DBOS, PERDURE, TALK, Question

TALK_QUESTIONS = (
    Question(
        "send-recv",
        "send to the return of recv, one process: median",
        "ms",
        (PERDURE, DBOS),
        higher=False,
        arguments={"values": 100},
        against={DBOS: 0.3},
        subject=TALK,
    ),
    Question(
        "event",
        "set_event to the return of get_event, one process: median",
        "ms",
        (PERDURE, DBOS),
        higher=False,
        arguments={"values": 100},
        against={DBOS: 0.2},
        subject=TALK,
    ),
    # The reference polls every second, so that it needs half of one; it says so in its defaults.
    Question(
        "result-notice",
        "end of a workflow to the return of result() in another process: median",
        "ms",
        (PERDURE, DBOS),
        higher=False,
        arguments={"values": 20},
        against={DBOS: 0.02},
        ceiling=5,
        subject=TALK,
    ),
    Question(
        "client-call",
        "enqueue by a client to the return of result() there, of an empty workflow: median",
        "ms",
        (PERDURE, DBOS),
        higher=False,
        arguments={"values": 50},
        against={DBOS: 0.02},
        subject=TALK,
    ),
    Question(
        "waiters",
        "SQL statements per second of 10,000 that wait, half for messages and half for events,"
        " heartbeat not counted",
        "statements/s",
        (PERDURE,),
        higher=False,
        arguments={"waiters": 10_000, "seconds": 10},
        ceiling=3,
        subject=TALK,
    ),
    Question(
        "sqlite-send-recv",
        "SQLite: send to the return of recv, one process: median",
        "ms",
        (PERDURE, DBOS),
        higher=False,
        database="sqlite",
        arguments={"values": 100},
        ceiling=2,
        subject=TALK,
    ),
    Question(
        "sqlite-event",
        "SQLite: set_event to the return of get_event, one process: median",
        "ms",
        (PERDURE, DBOS),
        higher=False,
        database="sqlite",
        arguments={"values": 100},
        ceiling=2,
        subject=TALK,
    ),
    Question(
        "sqlite-send-recv-across",
        "SQLite: send to the return of recv in another process: median",
        "ms",
        (PERDURE,),
        higher=False,
        database="sqlite",
        arguments={"values": 100},
        ceiling=20,
        subject=TALK,
    ),
    Question(
        "sqlite-event-across",
        "SQLite: set_event to the return of get_event in another process: median",
        "ms",
        (PERDURE,),
        higher=False,
        database="sqlite",
        arguments={"values": 100},
        ceiling=20,
        subject=TALK,
    ),
)
