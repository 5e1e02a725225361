"""Pushing a debounced workflow back."""

from perdure.model.ids import WorkflowId
from perdure.model.management import Bounce, Managed
from perdure.store.commands import BOUNCES, holder_of, may_be_bounced
from perdure.store.postgres.work import Work


async def bounce(work: Work, command: Bounce) -> Managed:
    """Push the holder back, or say who it is."""
    new = command.workflow
    application = new.application_name or work.application
    held = (new.queue_name, new.deduplication_id)
    asked = (
        *held,
        *(new.name, new.class_name or "", new.config_name or "", application),
        *(new.delay_ms, new.inputs, new.serialization, work.offset_ms, new.application_version),
        *(new.authenticated_user, new.authenticated_roles, new.assumed_role),
    )
    holder = None
    for _ in range(BOUNCES):
        moved = await work.fetch("bounce", *asked)
        if moved:
            return Managed((WorkflowId(moved[0]["workflow_uuid"]),))
        holder = holder_of(await work.fetch("debounce_holder", *held))
        # Statements see what was committed before each: who holds the id may have come between two.
        if not may_be_bounced(holder, new, application):
            break
    return Managed(holder=holder)
