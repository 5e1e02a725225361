"""Which process settled how many files of a run, by what the database says."""

from collections import Counter
from dataclasses import dataclass

from perdure import WorkflowState
from perdure.api.management import Workflows
from perdure.cli.demo.service import Post


@dataclass(frozen=True, slots=True)
class Census:
    """Settled files by the `executor_id` of the process that settled them."""

    files: dict[str, int]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.files.values())

    def of(self, post: Post) -> int:
        """Those of one process of a start, under whichever of its boots."""
        return sum(files for executor, files in self.files.items() if post.is_of(executor))


async def take_census(workflows: Workflows, run_id: str) -> Census:
    """Count the settled files of a run: one statement for a thousand of them."""
    ended = [state for state in WorkflowState if state.is_terminal]
    files: Counter[str] = Counter()
    async for row in workflows.iterate(parents=run_id, states=ended):
        files[row.executor_id or ""] += 1
    return Census(dict(files))
