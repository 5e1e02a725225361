"""Errors, both ways."""

from collections.abc import Callable, Sequence

import msgspec

from perdure.errors import RemoteError

KnownError = Callable[[str, str], type[BaseException] | None]


class ErrorCodec:
    """Stores errors as the shared envelope; never fails to store one."""

    def __init__(
        self,
        limit: int,
        unpickle: bool,
        errors: Sequence[type[BaseException]],
        known_error: KnownError,
    ) -> None:
        self._limit = limit
        self._unpickle = unpickle
        self._errors = {(error.__module__, error.__qualname__): error for error in errors}
        self._known_error = known_error

    def encode(self, error: BaseException) -> str:
        """The stored text of any error; one that cannot be stored is stored as its description."""
        envelope = {"name": type(error).__name__, "message": str(error), "code": None}
        return msgspec.json.encode(envelope).decode()

    def encode_as(self, serialization: str | None, error: BaseException) -> str:
        """As `encode`, in the format of a row that already has a label."""
        return self.encode(error)

    def decode(self, text: str | None, serialization: str | None) -> Exception:
        """The error of a row's text: its own class where that is known, else `RemoteError`."""
        envelope = msgspec.json.decode(text or "{}")
        return RemoteError(envelope.get("name", "Error"), envelope.get("message", ""))
