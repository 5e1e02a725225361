"""Which process settled how many files of a run, by what the database says."""

from collections import Counter
from dataclasses import dataclass

from perdure import WorkflowState
from perdure.api.listing import ListOptions
from perdure.api.management import Workflows
from perdure.cli.demo.service import Post

_COUNTED_AT_ONCE = 1000


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
    page = ListOptions(parent=run_id, states=ended, limit=_COUNTED_AT_ONCE)
    while True:
        rows = await workflows.list(**page)
        files.update(row.executor_id or "" for row in rows)
        if len(rows) < _COUNTED_AT_ONCE:
            return Census(dict(files))
        page["after"] = (rows[-1].created_at_ms, rows[-1].workflow_id)
