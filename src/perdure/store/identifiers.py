"""The one place that turns a name into SQL text, and the names of our own schema."""

import hashlib

from perdure.errors import ConfigurationError
from perdure.model.wire import DEFAULT_SCHEMA

MAX_IDENTIFIER_BYTES = 63
"""Postgres cuts longer identifiers off without an error, so that two names could become one."""


def quote_identifier(name: str) -> str:
    """The name as a quoted SQL identifier, correct for any text a database accepts as a name.

    Raises `ConfigurationError` for a name no database accepts unchanged: empty, with a NUL
    character or a lone surrogate, or longer than 63 bytes.
    """
    if not name:
        raise ConfigurationError("a schema name cannot be empty")
    if "\x00" in name:
        raise ConfigurationError(f"the schema name {name!r} holds a NUL character")
    if len(_utf8(name)) > MAX_IDENTIFIER_BYTES:
        raise ConfigurationError(
            f"the schema name {name!r} is longer than {MAX_IDENTIFIER_BYTES} bytes, "
            "which Postgres would cut off silently; choose a shorter one"
        )
    return '"' + name.replace('"', '""') + '"'


def own_schema(shared: str) -> str:
    """The schema of our own tables beside the shared schema: one for each.

    `perdure` beside `dbos`, else `<shared>_perdure`; a result too long for an identifier keeps
    its start and carries a digest of the whole name instead of the rest.
    """
    if shared == DEFAULT_SCHEMA:
        return "perdure"
    name = f"{shared}_perdure"
    if len(_utf8(name)) <= MAX_IDENTIFIER_BYTES:
        return name
    ending = f"_{hashlib.sha256(_utf8(shared)).hexdigest()[:12]}_perdure"
    room = MAX_IDENTIFIER_BYTES - len(ending)
    return _utf8(shared)[:room].decode(errors="ignore") + ending


def _utf8(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"the schema name {name!r} is not valid Unicode") from error
