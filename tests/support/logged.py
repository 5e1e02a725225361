"""What was logged, but for what a busy machine makes the heartbeat say."""

from __future__ import annotations

import logging

import pytest


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records without those about a loop that did not run for a while."""
    return [record for record in caplog.records if record.module != "liveness"]
