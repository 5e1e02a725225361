"""Registered application versions."""

import msgspec


class VersionRow(msgspec.Struct, frozen=True):
    """One version. The latest of an application is the one whose `at_ms` is the highest.

    `application_name` None: it is no application's, and stands for a version of each.
    """

    name: str
    version_id: str
    application_name: str | None
    at_ms: int
    created_at_ms: int
