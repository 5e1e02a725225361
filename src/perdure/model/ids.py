"""One type per meaning of a string or number that identifies something."""

from typing import NewType

WorkflowId = NewType("WorkflowId", str)
"""Identifies a workflow in the whole database; also its idempotency key."""

StepId = NewType("StepId", int)
"""Position of a durable operation in its workflow, from 1."""

OwnerToken = NewType("OwnerToken", str)
"""Fencing token of one execution: fresh at every start and every claim (`owner_xid`)."""

ExecutorId = NewType("ExecutorId", str)
"""`<configured name>/<boot id>`: the process start that owns a row."""

BootId = NewType("BootId", str)
"""Random identity of one process start."""

BOOT_PREFIX = "boot-"
"""Every boot id begins with this, so that a row says whether a Perdure process owns it."""
