"""The arguments of one function, both ways."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.errors import InvalidArgument, UndecodableValue, UnserializableValue, ValueTooLarge


class ArgumentsCodec:
    """Stores calls of one function; `what` names the function in errors."""

    def __init__(self, fn: Callable[..., Any], what: str, limit: int) -> None:
        self._what = what
        self._limit = limit
        self._signature = inspect.signature(fn)

    def encode(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The stored text, and the arguments a replay will read from it.

        Raises `InvalidArgument` if the call does not fit the signature.
        """
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(f"{self._what}: {error}") from None
        try:
            raw = msgspec.json.encode({"namedArgs": dict(kwargs), "positionalArgs": list(args)})
        except (TypeError, ValueError, OverflowError) as error:
            raise UnserializableValue(self._what, "arguments", str(error)) from error
        if len(raw) > self._limit:
            raise ValueTooLarge(self._what, len(raw), self._limit)
        text = raw.decode()
        decoded_args, decoded_kwargs = self.decode(text, None)
        return text, decoded_args, decoded_kwargs

    def decode(
        self, text: str | None, serialization: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a row's text under the row's label; SQL NULL is no arguments.

        Raises `UndecodableValue` naming the parameter if they no longer fit the signature.
        """
        envelope = {} if text is None else msgspec.json.decode(text)
        args = tuple(envelope.get("positionalArgs") or ())
        kwargs = dict(envelope.get("namedArgs") or {})
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UndecodableValue(self._what, serialization, str(error)) from None
        return args, kwargs
