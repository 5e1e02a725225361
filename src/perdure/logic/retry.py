"""Back-off: of a step between its attempts, of the engine between its tries."""

import math

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """Exponential back-off: `first_s`, multiplied by `rate` after each failure, at most `cap_s`."""

    first_s: float
    rate: float
    cap_s: float

    def delay_s(self, failures: int, jitter: float = 1.0) -> float:
        """Seconds to wait after that many failures (from 1); never more than the cap.

        A product that overflows or is no number gives the cap.
        """
        try:
            delay = self.first_s * self.rate ** (failures - 1) * jitter
        except OverflowError:
            return self.cap_s
        return self.cap_s if math.isnan(delay) or delay > self.cap_s else delay


UNAVAILABLE = Backoff(first_s=0.05, rate=2.0, cap_s=15.0)
"""Between tries while the database cannot be reached; tried for as long as the engine runs."""

CONFLICT = Backoff(first_s=0.005, rate=2.0, cap_s=1.0)
"""Between tries after the database rolled back because of concurrent work."""

BUSY = Backoff(first_s=0.002, rate=2.0, cap_s=0.25)
"""Between tries for a row that somebody else has locked."""

RELEASED = Backoff(first_s=1.0, rate=2.0, cap_s=3600.0)
"""Before a run that could not go on is tried again, by its number of attempts."""
