"""The codecs of one engine."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.errors import InvalidArgument, RegistrationError
from perdure.model.wire import PORTABLE_JSON
from perdure.serialization.arguments import ArgumentsCodec
from perdure.serialization.choices import Unstorable
from perdure.serialization.codec import Codec
from perdure.serialization.custom import Serializer, formats_of
from perdure.serialization.failures import ErrorCodec, KnownError
from perdure.serialization.hints import annotations_of
from perdure.serialization.pickled import Labels
from perdure.serialization.typed import Builder
from perdure.serialization.values import ValueCodec


class Serialization:
    """Makes and keeps the codecs of one engine.

    `max_value_bytes` bounds every stored text (UTF-8); `unpickle` allows reading `py_pickle` rows;
    `errors` are the exception classes that come back as themselves; `known_error` finds a class,
    already loaded and known to the engine, by module and qualified name. `serializers` are the
    user's own formats, by name.
    """

    def __init__(
        self,
        max_value_bytes: int,
        unpickle: bool,  # noqa: FBT001  named in every call
        errors: Sequence[type[BaseException]],
        known_error: KnownError,
        serializers: Mapping[str, Serializer] | None = None,
    ) -> None:
        self._limit = max_value_bytes
        self._labels = Labels(unpickle=unpickle, formats=formats_of(serializers or {}))
        self._builder = Builder()
        self.errors = ErrorCodec(max_value_bytes, self._labels, errors, known_error)

    def label_for(self, serialization: str | None) -> str:
        """How payloads of a row of that label are written beside it: as its own format, if that is
        one of the user's, else as what every SDK reads."""
        custom = self._labels.custom(serialization)
        return PORTABLE_JSON if custom is None or serialization is None else serialization

    def chosen(self, serializer: str) -> str:
        """The label of a format that a call chooses; raises `InvalidArgument` if there is none."""
        known_here = isinstance(serializer, str) and (
            serializer == PORTABLE_JSON or self._labels.custom(serializer) is not None
        )
        if not known_here:
            known = ", ".join((PORTABLE_JSON, *self._labels.names))
            raise InvalidArgument(f"serializer={serializer!r}: there are {known}")
        return serializer

    def value(self, annotation: object, what: str) -> ValueCodec[Any]:
        """The codec for values annotated `annotation` (`Any` or `Parameter.empty`: none).

        What is costly about it is kept by annotation, so that `what` may be different every time.
        Raises `RegistrationError` for an annotation whose values can never be stored.
        """
        codec = self._codec(annotation, what)
        return ValueCodec[Any](codec, what, self._limit, self._labels)

    def arguments(self, fn: Callable[..., Any], what: str) -> ArgumentsCodec:
        """The codec for calls of `fn`. Raises `RegistrationError` as `value` does."""
        signature = inspect.signature(fn)
        annotations = annotations_of(fn)
        codecs = {
            name: self._codec(annotations[name], f"{what}: argument {name!r}")
            for name in signature.parameters
        }
        return ArgumentsCodec(signature, codecs, what, self._limit, self._labels)

    def _codec(self, annotation: object, what: str) -> Codec:
        try:
            return self._builder.build(annotation)
        except Unstorable as error:
            shown = annotation.__qualname__ if isinstance(annotation, type) else annotation
            raise RegistrationError(
                f"{what}: values annotated {shown} cannot be stored: {error}"
            ) from error
