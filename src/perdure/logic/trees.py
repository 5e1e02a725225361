"""A family of workflows as a tree."""

from collections.abc import Sequence

from perdure.model.ids import WorkflowId
from perdure.model.listing import Branch
from perdure.model.workflow import WorkflowRow


def arranged(root: WorkflowRow, descendants: Sequence[WorkflowRow]) -> list[Branch]:
    """Each workflow below its parent, siblings in the order given; each once.

    One whose parent is not among them stands right below the root.
    """
    below: dict[WorkflowId, list[WorkflowRow]] = {root.workflow_id: []}
    below.update((row.workflow_id, []) for row in descendants)
    for row in descendants:
        parent = row.parent_workflow_id
        known = parent is not None and parent in below
        below[parent if known and parent is not None else root.workflow_id].append(row)
    found: list[Branch] = []
    waiting = [Branch(0, root)]
    while waiting:
        branch = waiting.pop()
        found.append(branch)
        children = below.pop(branch.workflow.workflow_id, [])
        waiting += [Branch(branch.depth + 1, row) for row in reversed(children)]
    return found
