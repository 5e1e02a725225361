"""Pushing a debounced workflow back."""

from perdure.model.management import Bounce, Managed
from perdure.store.commands import holder_of
from perdure.store.sqlite.instants import later
from perdure.store.sqlite.work import Work


def bounce(work: Work, command: Bounce) -> Managed:
    """Push the holder back, or say who it is."""
    new = command.workflow
    held = {"queue": new.queue_name, "deduplication": new.deduplication_id}
    holder = holder_of(work.rows("debounce_holder", **held))
    if holder is None:
        return Managed()
    moved = work.change(
        "bounce",
        **held,
        name=new.name,
        class_name=new.class_name or "",
        config_name=new.config_name or "",
        application=new.application_name or work.application,
        until=later(work.now_ms, new.delay_ms),
        serialization=new.serialization,
        version=new.application_version,
        user=new.authenticated_user,
        roles=new.authenticated_roles,
        role=new.assumed_role,
        now=work.now_ms,
    )
    if not moved:
        return Managed(holder=holder)
    work.change("replace_inputs", id=holder.workflow_id, inputs=new.inputs, now=work.now_ms)
    return Managed((holder.workflow_id,))
