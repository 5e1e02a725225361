"""The seven states of a workflow, spelled as on the wire."""

from enum import StrEnum


class WorkflowState(StrEnum):
    """State of a workflow's row."""

    ENQUEUED = "ENQUEUED"
    DELAYED = "DELAYED"
    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"
    MAX_RECOVERY_ATTEMPTS_EXCEEDED = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"

    @property
    def is_terminal(self) -> bool:
        """Whether no execution will change the row by itself any more (resume and rewind can)."""
        return self not in ACTIVE


ACTIVE = frozenset({WorkflowState.ENQUEUED, WorkflowState.DELAYED, WorkflowState.PENDING})
"""States in which a waiter keeps waiting."""
