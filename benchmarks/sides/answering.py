"""The command line of every program: `QUESTION URL ARGUMENTS-AS-JSON`, answered by one figure."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping

Answer = Callable[[str, dict[str, int]], Awaitable[float]]


def answer(answers: Mapping[str, Answer]) -> None:
    """Measure what the command line asks and print the figure."""
    question, url, arguments = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    figure = asyncio.run(_measured(answers[question], url, arguments))
    print(json.dumps({"figure": figure}), flush=True)


async def _measured(measure: Answer, url: str, arguments: dict[str, int]) -> float:
    return await measure(url, arguments)
