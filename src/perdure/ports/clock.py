"""Time, injected: tests move it instead of sleeping."""

from typing import Protocol


class Clock(Protocol):
    """The process's monotonic clock, and what is added to the database's."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    def offset_ms(self) -> int:
        """Milliseconds every statement adds to the database's clock; zero in production."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long on this clock; a time not positive only yields to the loop."""
        ...
