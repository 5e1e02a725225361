"""Logging: which workflow and step a line belongs to."""

import logging

from perdure.engine.context import PLACE, StepScope


class ContextFilter(logging.Filter):
    """Adds `workflow_id` and `step_id` to every record; '-' where there is none.

    Put it on a handler, so that it sees the records of every logger:

    >>> handler = logging.StreamHandler()
    >>> handler.addFilter(ContextFilter())
    >>> handler.setFormatter(logging.Formatter("%(workflow_id)s %(step_id)s %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, marked."""
        place = PLACE.get()
        record.workflow_id = place.run.workflow_id if place is not None else "-"
        record.step_id = place.step_id if isinstance(place, StepScope) else "-"
        return True
