"""What a store can do, so that nobody asks which store it is."""

import msgspec


class Capabilities(msgspec.Struct, frozen=True):
    """Facts about a store that change what the engine does, never how it is right."""

    listen: bool
    """Hints from other processes arrive, on the heartbeat link and on one that only listens."""

    parallel_writes: bool
    """Batches of different kinds may be written at the same time on separate connections."""

    max_batch: int
    """Rows in one hot write that still pay: larger batches are cut."""
