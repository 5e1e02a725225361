"""An approval: a workflow asks, a human answers from another process, or the deadline wins.

Start it, and answer from another terminal while it waits:

    python examples/approval.py 1001 60
    python examples/approval.py answer 1001 yes

Stop it at any moment, with Ctrl-C or `kill -9`, and start it again: nobody is asked twice, the
deadline stays where it was, and an answer that was given meanwhile counts. The first number names
the expense, the second is how many seconds the answer may take.
"""

import asyncio
import sys
from dataclasses import dataclass
from decimal import Decimal

from perdure import Client, Engine, Selected, recv, select, set_event, sleep, step, workflow

DATABASE = "sqlite:///approvals.db"


@dataclass(frozen=True)
class Answer:
    """What a human says."""

    approved: bool
    by: str


@step
async def ask(question: str) -> None:
    """Reach the human: this would be a mail or a chat message."""
    print(question)


@step
async def pay(amount: Decimal) -> None:
    """Move the money."""
    print(f"{amount} paid")


@workflow
async def expense(who: str, amount: Decimal, patience_s: float) -> str:
    """What decides is recorded before anything follows from it: a replay comes to the same end."""
    question = f"may {who} spend {amount}?"
    await set_event("question", question)
    await ask(question)
    match await select(answer=recv("answer", into=Answer), late=sleep(patience_s)):
        case Selected("answer", value=Answer(approved=True, by=human)):
            await pay(amount)
            return f"approved by {human}"
        case Selected("answer", value=Answer(by=human)):
            return f"declined by {human}"
        case _:
            return "nobody answered in time"


async def answer(number: str, word: str) -> None:
    """The human's side: a program that runs no workflows."""
    async with Client(DATABASE) as client:
        workflow_id = f"expense-{number}"
        print(await client.get_event(workflow_id, "question"))
        decision = Answer(word == "yes", "Grace")
        # The key makes a second answer of the same human none.
        await client.send(workflow_id, decision, "answer", idempotency_key="Grace")


async def run(number: str, patience_s: float) -> None:
    """The engine's side."""
    async with Engine(DATABASE):
        call = expense.options(id=f"expense-{number}")
        handle = await call.start("Ada", Decimal("120.00"), patience_s)
        print(f"expense {number}: {await handle.result()}")


async def main() -> None:
    match sys.argv[1:]:
        case ["answer", number, word]:
            await answer(number, word)
        case [number, patience]:
            await run(number, float(patience))
        case _:
            await run("1001", 1)


if __name__ == "__main__":
    asyncio.run(main())
