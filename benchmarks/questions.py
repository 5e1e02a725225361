"""What a question is, and those about workflows: what is measured, and the ratio to reach."""

from dataclasses import dataclass, field, replace
from typing import Self

PERDURE = "perdure"
DBOS = "dbos"
BOUND = "bound"

RUNS = "runs"
QUEUES = "queues"
TALK = "talk"


@dataclass(frozen=True)
class Question:
    """One question; `arguments` go to every side, `higher` says which direction is better.

    `against` holds the target ratio to each other side: at least that for rates, at most that for
    times and sizes. `ceiling` and `floor` are absolute targets in the question's unit, for what
    does not depend on the machine. `subject` says which program of a side answers. `backlog` names
    the argument that says how many rows wait in a queue, where that can be asked about otherwise.
    """

    name: str
    asks: str
    unit: str
    sides: tuple[str, ...]
    higher: bool
    database: str = "postgres"
    arguments: dict[str, int] = field(default_factory=dict)
    against: dict[str, float] = field(default_factory=dict)
    ceiling: float | None = None
    floor: float | None = None
    subject: str = RUNS
    backlog: str | None = None

    @property
    def text(self) -> str:
        """What is asked, with the arguments that it names."""
        return self.asks.format_map(self.arguments)

    def with_backlog(self, rows: int) -> Self:
        """The same question with that many rows waiting."""
        if self.backlog is None:
            raise ValueError(f"{self.name} is not about a backlog")
        return replace(self, arguments={**self.arguments, self.backlog: rows})


RUN_QUESTIONS = (
    Question(
        "steps",
        "steps per second, 100 workflows at a time of 10 steps each",
        "steps/s",
        (PERDURE, BOUND, DBOS),
        higher=True,
        arguments={"workflows": 2000, "at_a_time": 100, "steps": 10},
        against={BOUND: 0.7, DBOS: 40},
    ),
    Question(
        "steps-500",
        "steps per second, 500 workflows at a time of 10 steps each",
        "steps/s",
        (PERDURE, BOUND),
        higher=True,
        arguments={"workflows": 4000, "at_a_time": 500, "steps": 10},
        against={BOUND: 0.7},
    ),
    Question(
        "step-latency",
        "one workflow, sequential steps: median time of a step",
        "ms",
        (PERDURE, BOUND, DBOS),
        higher=False,
        arguments={"steps": 1000},
        against={BOUND: 1.5},
    ),
    Question(
        "workflows",
        "empty workflows per second, start to recorded outcome, 200 at a time",
        "workflows/s",
        (PERDURE, BOUND, DBOS),
        higher=True,
        arguments={"workflows": 10000, "at_a_time": 200},
        against={BOUND: 0.6, DBOS: 6},
    ),
    Question(
        "two-steps",
        "a workflow of two steps, start to result, one at a time: median",
        "ms",
        (PERDURE, DBOS),
        higher=False,
        arguments={"workflows": 500},
        against={DBOS: 0.34},
    ),
    Question(
        "statements",
        "SQL statements of a new workflow with one step",
        "statements",
        (PERDURE, DBOS),
        higher=False,
        arguments={"workflows": 1},
        ceiling=3,
    ),
    Question(
        "sleepers",
        "memory per sleeping workflow, 10,000 of them",
        "KiB",
        (PERDURE, DBOS),
        higher=False,
        arguments={"workflows": 10000},
        ceiling=4,
    ),
    Question(
        "sleepers-start",
        "time until 10,000 workflows sleep",
        "s",
        (PERDURE, DBOS),
        higher=False,
        arguments={"workflows": 10000},
        against={DBOS: 0.044},
    ),
    Question(
        "idle",
        "SQL statements per second of an idle process, heartbeat not counted",
        "statements/s",
        (PERDURE, DBOS),
        higher=False,
        arguments={"seconds": 10},
        ceiling=1,
    ),
    Question(
        "import",
        "time to import the package",
        "ms",
        (PERDURE, DBOS),
        higher=False,
        database="none",
        against={DBOS: 0.39},
    ),
    Question(
        "sqlite-workflows",
        "SQLite: empty workflows per second, 100 at a time",
        "workflows/s",
        (PERDURE, DBOS),
        higher=True,
        database="sqlite",
        arguments={"workflows": 2000, "at_a_time": 100},
        against={DBOS: 5},
    ),
    Question(
        "sqlite-steps",
        "SQLite: sequential steps per second of one workflow",
        "steps/s",
        (PERDURE, DBOS),
        higher=True,
        database="sqlite",
        arguments={"steps": 1000},
        against={DBOS: 5},
    ),
)
