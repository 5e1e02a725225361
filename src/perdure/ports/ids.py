"""Randomness, injected."""

from typing import Protocol

from perdure.model.ids import BootId, OwnerToken, WorkflowId


class Ids(Protocol):
    """Makes identities and jitter."""

    def workflow_id(self) -> WorkflowId:
        """A fresh random workflow id."""
        ...

    def token(self) -> OwnerToken:
        """A fresh random owner token."""
        ...

    def boot_id(self) -> BootId:
        """A fresh random boot id, beginning with `BOOT_PREFIX`."""
        ...

    def jitter(self) -> float:
        """A random factor, uniform in [0.5, 1.5)."""
        ...
