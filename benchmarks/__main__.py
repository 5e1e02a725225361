"""Asks every question of every side, interleaved, and keeps the figures.

`python -m benchmarks [QUESTION...] [--rounds N] [--backlog ROWS]`
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.questions import BOUND, DBOS, PERDURE, QUEUES, RUN_QUESTIONS, RUNS, TALK, Question
from benchmarks.queue_questions import QUEUE_QUESTIONS
from benchmarks.talk_questions import TALK_QUESTIONS
from perdure import Engine
from tests.support.postgres import PostgresServer, disk

QUESTIONS = RUN_QUESTIONS + QUEUE_QUESTIONS + TALK_QUESTIONS
HERE = Path(__file__).parent
SIDES = HERE / "sides"
RESULTS = HERE / "results"
REFERENCE = "dbos==3.4.0"
ENOUGH_OF_DBOS = 3
"""Its rounds take minutes, and its figures lie far from every target."""
PROGRAMS = {
    (PERDURE, RUNS): SIDES / "perdure_side.py",
    (PERDURE, QUEUES): SIDES / "perdure_queues.py",
    (BOUND, RUNS): SIDES / "bound.py",
    (BOUND, QUEUES): SIDES / "bound_queues.py",
    (DBOS, RUNS): SIDES / "dbos_side.py",
    (DBOS, QUEUES): SIDES / "dbos_queues.py",
    (PERDURE, TALK): SIDES / "perdure_talk.py",
    (DBOS, TALK): SIDES / "dbos_talk.py",
}


class Bench:
    """One run: a server, the reference's virtual environment, and the figures so far."""

    def __init__(self, server: PostgresServer | None, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._python = {PERDURE: sys.executable, BOUND: sys.executable}
        self._files = 0
        # Compiled code is kept for every side, as an installed package has it.
        self._environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def ask(self, question: Question, side: str) -> float:
        """One side's figure, from a fresh process on a fresh database."""
        url = self._fresh(question.database, side)
        command = [
            self._interpreter(side),
            str(PROGRAMS[side, question.subject]),
            question.name,
            url,
            json.dumps(question.arguments),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=900, env=self._environment
        )
        if done.returncode != 0:
            raise RuntimeError(f"{question.name} on {side} failed:\n{done.stderr[-3000:]}")
        return float(json.loads(done.stdout.strip().splitlines()[-1])["figure"])

    def _fresh(self, database: str, side: str) -> str:
        if database == "none":
            return "-"
        if database == "sqlite":
            self._files += 1
            return f"sqlite:///{self._folder}/bench{self._files}.db"
        if self._server is None:
            raise RuntimeError("this question needs Postgres")
        url = asyncio.run(self._server.databases.create())
        if side == BOUND:
            asyncio.run(_install_schema(url))
        return url

    def _interpreter(self, side: str) -> str:
        if side not in self._python:
            self._python[side] = _reference_python()
        return self._python[side]


async def _install_schema(url: str) -> None:
    async with Engine(url):
        return


def _reference_python() -> str:
    """A virtual environment with the reference in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    home = cache / "perdure-benchmarks" / REFERENCE
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", REFERENCE], check=True)
        (home / "complete").touch()
    return str(python)


def run(questions: list[Question], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Every round asks every side once; returns all figures by question and side."""
    figures: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=disk())))
        server = None
        if any(question.database == "postgres" for question in questions):
            settings = {
                "shared_preload_libraries": "pg_stat_statements",
                "synchronous_commit": "on",
                "shared_buffers": "512MB",
                "max_wal_size": "4GB",
            }
            server = stack.enter_context(PostgresServer(settings, directory=disk()))
        bench = Bench(server, folder)
        for question in questions:
            sides: dict[str, list[float]] = {side: [] for side in question.sides}
            for _ in range(rounds):
                for side, values in sides.items():
                    if side == DBOS and len(values) >= ENOUGH_OF_DBOS:
                        continue
                    values.append(bench.ask(question, side))
            figures[question.name] = sides
            print(row(question, sides), flush=True)
    return figures


def row(question: Question, sides: dict[str, list[float]]) -> str:
    """One line of the table."""
    medians = {side: statistics.median(values) for side, values in sides.items()}
    ours = medians[PERDURE]
    cells = [f"{medians[side]:,.4g}" if side in medians else "—" for side in (PERDURE, BOUND, DBOS)]
    verdicts = []
    for side, target in question.against.items():
        ratio = ours / medians[side]
        met = ratio >= target if question.higher else ratio <= target
        verdicts.append(f"{ratio:.3g} x {side} ({'met' if met else 'MISSED'}: {target:g})")
    if question.ceiling is not None:
        met = ours <= question.ceiling
        verdicts.append(f"{'met' if met else 'MISSED'}: ≤ {question.ceiling:g}")
    if question.floor is not None:
        met = ours >= question.floor
        verdicts.append(f"{'met' if met else 'MISSED'}: ≥ {question.floor:g}")
    return f"| {question.text} | {question.unit} | {' | '.join(cells)} | {'; '.join(verdicts)} |"


def keep(name: str, questions: list[Question], figures: dict[str, dict[str, list[float]]]) -> None:
    """Write the figures as data and as a table, under that name."""
    RESULTS.mkdir(exist_ok=True)
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "perdure": version("perdure"),
        "reference": REFERENCE,
        "figures": figures,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")
    head = (
        f"{facts['date']}, Python {facts['python']}, {facts['machine']}; medians of the rounds.\n\n"
        "| question | unit | perdure | bound | dbos 3.4.0 | ratio and target |\n"
        "|---|---|--:|--:|--:|---|\n"
    )
    rows = [row(question, figures[question.name]) for question in questions]
    (RESULTS / f"{name}.md").write_text("# Figures\n\n" + head + "\n".join(rows) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*", help="names; all if none is given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results")
    parser.add_argument(
        "--backlog",
        type=int,
        metavar="ROWS",
        help="ask what a claim costs with so many rows queued",
    )
    chosen = parser.parse_args()
    askable = QUESTIONS
    if chosen.backlog is not None:
        askable = tuple(each.with_backlog(chosen.backlog) for each in QUESTIONS if each.backlog)
    known = {question.name: question for question in askable}
    unknown = set(chosen.questions) - set(known)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    questions = [known[name] for name in chosen.questions] or list(askable)
    figures = run(questions, chosen.rounds)
    if chosen.keep or not chosen.questions:
        keep("latest" if chosen.backlog is None else "backlog", questions, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
