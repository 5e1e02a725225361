"""Changing workflows from outside: one implementation for the engine, the client and the CLI."""

from perdure.api.listing import Listing


class Workflows(Listing):
    """The workflows of one database that are this application's, or nobody's."""
