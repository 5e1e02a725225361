"""An agent that researches: it fans out searches, and streams its answer while it is written.

Stop it at any moment, with Ctrl-C or `kill -9`, and start it again: searches that were done are not
done again, and every word is in the stream once, for whoever reads. Follow it from another terminal
with

    python examples/token_stream.py watch
"""

import asyncio
import sys
from collections.abc import AsyncIterator

from perdure import Client, Engine, close_stream, map, step, workflow, write_stream  # noqa: A004

DATABASE = "sqlite:///research.db"
QUESTION = "how do workflows survive"
SOURCES = {
    "books": "they write down what was done",
    "papers": "they replay what was written",
    "people": "they go on from there",
}


@step(max_attempts=3, interval=0.1)
async def search(source: str) -> str:
    """Ask one source: this would be a call of a tool."""
    print(f"searching {source}")
    await asyncio.sleep(0.2)
    return SOURCES[source]


@step(max_attempts=3, interval=0.1)
async def compose(findings: list[str]) -> int:
    """Write the answer word by word: this would be a call of a language model.

    An attempt that is made again appends only what the one before had not.
    """
    words = ", ".join(findings).split()
    for word in words:
        await write_stream("answer", word)
        await asyncio.sleep(0.05)
    return len(words)


async def investigate(source: str) -> str:
    """One branch of the fan-out; any durable calls may stand in it."""
    found = await search(source)
    await write_stream("notes", f"{source}: {found}")
    return found


@workflow
async def research(question: str) -> int:
    """Two searches at a time, then the answer."""
    await write_stream("notes", f"the question: {question}")
    findings = await map(investigate, SOURCES, concurrency=2)
    words = await compose(findings)
    await close_stream("answer")
    return words


async def show(words: AsyncIterator[str]) -> None:
    """Print words as they come."""
    async for word in words:
        print(word, end=" ", flush=True)
    print()


async def watch() -> None:
    """The live reader of another process."""
    async with Client(DATABASE) as client:
        await show(client.read_stream("research-1", "answer", into=str))


async def run() -> None:
    """Research, and read along."""
    async with Engine(DATABASE):
        handle = await research.options(id="research-1").start(QUESTION)
        await show(handle.stream("answer", into=str))
        await handle.result()


if __name__ == "__main__":
    asyncio.run(watch() if sys.argv[1:] == ["watch"] else run())
