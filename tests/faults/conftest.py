"""Engines for the tests of this folder."""

from tests.support.engines import lab, memory_lab, shared_lab

__all__ = ["lab", "memory_lab", "shared_lab"]
