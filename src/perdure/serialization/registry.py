"""The codecs of one engine."""

from collections.abc import Callable, Sequence
from typing import Any

from perdure.serialization.arguments import ArgumentsCodec
from perdure.serialization.failures import ErrorCodec, KnownError
from perdure.serialization.values import ValueCodec


class Serialization:
    """Makes and keeps the codecs of one engine.

    `max_value_bytes` bounds every stored text (UTF-8); `unpickle` allows reading `py_pickle` rows;
    `errors` are the exception classes that come back as themselves; `known_error` finds a class,
    already loaded and known to the engine, by module and qualified name.
    """

    def __init__(
        self,
        max_value_bytes: int,
        unpickle: bool,
        errors: Sequence[type[BaseException]],
        known_error: KnownError,
    ) -> None:
        self._limit = max_value_bytes
        self._unpickle = unpickle
        self.errors = ErrorCodec(max_value_bytes, unpickle, errors, known_error)

    def value(self, annotation: object, what: str) -> ValueCodec[Any]:
        """The codec for values annotated `annotation` (`Any` or `Parameter.empty`: none).

        Raises `RegistrationError` for an annotation whose values can never be stored.
        """
        return ValueCodec(what, self._limit)

    def arguments(self, fn: Callable[..., Any], what: str) -> ArgumentsCodec:
        """The codec for calls of `fn`. Raises `RegistrationError` as `value` does."""
        return ArgumentsCodec(fn, what, self._limit)
