"""The arguments of one function, both ways."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.errors import InvalidArgument, ValueTooLarge
from perdure.model.wire import PORTABLE_JSON
from perdure.serialization.codec import Codec, Misfit, wrong_kind
from perdure.serialization.custom import Format
from perdure.serialization.nesting import SHALLOW_BYTES, check_depth
from perdure.serialization.pickled import Labels, load_pickle
from perdure.serialization.sizes import least_bytes
from perdure.serialization.text import dump
from perdure.serialization.values import refusal, undecodable

_POSITIONAL = "positionalArgs"
_NAMED = "namedArgs"
_WRAPPED_POSITIONAL = "args"
_WRAPPED_NAMED = "kwargs"

_SHARED = (_POSITIONAL, _NAMED)
_WRAPPED = (_WRAPPED_POSITIONAL, _WRAPPED_NAMED)

Place = int | str
"""Where a call gives an argument: its position, or its name."""


class ArgumentsCodec:
    """Stores calls of one function; `what` names the function in errors.

    Arguments are stored as they were given, by position or by name; defaults are not stored.
    """

    __slots__ = (
        "_labels",
        "_limit",
        "_named",
        "_names",
        "_needed",
        "_other",
        "_places",
        "_required",
        "_signature",
        "_what",
    )

    def __init__(
        self,
        signature: inspect.Signature,
        codecs: Mapping[str, Codec],
        what: str,
        limit: int,
        labels: Labels,
    ) -> None:
        self._signature = signature
        self._what = what
        self._limit = limit
        self._labels = labels
        self._places: list[tuple[str, Codec]] = []
        self._named: dict[str, Codec] = {}
        self._other: dict[inspect._ParameterKind, tuple[str, Codec]] = {}
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self._other[parameter.kind] = (name, codecs[name])
                continue
            if parameter.kind is not parameter.KEYWORD_ONLY:
                self._places.append((name, codecs[name]))
            if parameter.kind is not parameter.POSITIONAL_ONLY:
                self._named[name] = codecs[name]
        self._names = [name for name, _ in self._places]
        self._required = frozenset(
            name
            for name, parameter in signature.parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        )

        places = [signature.parameters[name] for name in self._names]
        positional = sum(place.default is place.empty for place in places)
        only_named = len(self._required) > positional
        self._needed = len(places) + 1 if only_named else positional

    def encode(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        serialization: str = PORTABLE_JSON,
    ) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The stored text in that format, and the arguments a replay will read from it.

        Raises `InvalidArgument` if the call does not fit the signature, `UnserializableValue`
        with the path of what cannot be stored, or `ValueTooLarge`.
        """
        try:
            self._bind(args, kwargs)
        except TypeError as error:
            raise InvalidArgument(f"{self._what}: {error}") from None
        custom = self._labels.custom(serialization)
        least = sum(map(least_bytes, (*args, *kwargs.values()))) if custom is None else 0
        if least > self._limit:
            raise ValueTooLarge(self._what, least, self._limit)
        positional = [self._lower(index, value) for index, value in enumerate(args)]
        named = {name: self._lower(name, value) for name, value in kwargs.items()}
        raw = self._dump(named, positional)
        if custom is not None:
            raw = self._write(custom, named, positional)
        if len(raw) > self._limit:
            raise ValueTooLarge(self._what, len(raw), self._limit)
        try:
            read = self._lift(positional, named)
        except _At as at:
            value = args[at.place] if isinstance(at.place, int) else kwargs[at.place]
            raise refusal(self._what, self._root(at.place), value, at.error) from at.error
        return raw.decode(), *read

    def decode(
        self, text: str | None, serialization: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a row's text under the row's label; SQL NULL is no arguments.

        Raises `UndecodableValue` naming the parameter if they no longer fit the signature.
        """
        try:
            args, kwargs = self._read(text, serialization)
        except _At as at:
            root = self._root(at.place)
            raise undecodable(self._what, serialization, root, at.error) from at.error
        except Exception as error:
            raise undecodable(self._what, serialization, "$", error) from error
        return args, kwargs

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise `TypeError` as the call itself would if the arguments do not fit."""
        if not self._fits(len(args), kwargs):
            self._signature.bind(*args, **kwargs)

    def _fits(self, count: int, kwargs: Mapping[str, Any]) -> bool:
        """Whether a call certainly fits, which is found much sooner than by binding it."""
        if count > len(self._places):
            return False
        if not kwargs:
            return count >= self._needed
        given = self._names[:count]
        return (
            self._required <= kwargs.keys() | given
            and kwargs.keys() <= self._named.keys()
            and kwargs.keys().isdisjoint(given)
        )

    def _codec(self, place: Place) -> Codec:
        if isinstance(place, str):
            named = self._named.get(place)
            return named or self._other[inspect.Parameter.VAR_KEYWORD][1]
        if place < len(self._places):
            return self._places[place][1]
        return self._other[inspect.Parameter.VAR_POSITIONAL][1]

    def _root(self, place: Place) -> str:
        if isinstance(place, str):
            return f"argument {place!r}"
        if place < len(self._places):
            return f"argument {self._places[place][0]!r}"
        name = self._other[inspect.Parameter.VAR_POSITIONAL][0]
        return f"argument {name!r}[{place - len(self._places)}]"

    def _lower(self, place: Place, value: Any) -> Any:
        codec = self._codec(place)
        if type(value) in codec.atoms:
            return value
        try:
            return codec.lower(value)
        except Exception as error:
            raise refusal(self._what, self._root(place), value, error) from error

    def _write(self, custom: Format, named: dict[str, Any], positional: list[Any]) -> bytes:
        """In a format that wraps them as it does in every SDK whose formats are in Python."""
        tree = {_WRAPPED_POSITIONAL: positional, _WRAPPED_NAMED: named}
        try:
            return custom.write(tree).encode()
        except Misfit as misfit:
            raise refusal(self._what, "the arguments", tree, misfit) from misfit

    def _dump(self, named: dict[str, Any], positional: list[Any]) -> bytes:
        tree = {_NAMED: named, _POSITIONAL: positional}
        try:
            raw = dump(tree)
            if len(raw) > SHALLOW_BYTES:
                check_depth(raw, tree)
        except Misfit:
            for name, part in named.items():
                self._dump_part(name, part)
            for index, part in enumerate(positional):
                self._dump_part(index, part)
            raise
        return raw

    def _dump_part(self, place: Place, part: Any) -> None:
        try:
            check_depth(dump(part), part)
        except Misfit as misfit:
            raise refusal(self._what, self._root(place), part, misfit) from misfit

    def _read(
        self, text: str | None, serialization: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a text, which fit the signature."""
        if text is None:
            self._bind((), {})
            return (), {}
        if self._labels.is_pickled(text, serialization):
            pickled = load_pickle(text)
            args, kwargs = tuple(pickled[_WRAPPED_POSITIONAL]), dict(pickled[_WRAPPED_NAMED])
            self._bind(args, kwargs)
            return args, kwargs
        envelope = self._labels.tree(text, serialization)
        if type(envelope) is not dict:
            raise wrong_kind(envelope, "an object of arguments")
        is_custom = self._labels.custom(serialization) is not None
        at, by_name = _WRAPPED if is_custom else _SHARED
        positional, named = envelope.get(at), envelope.get(by_name)
        positional = [] if positional is None else positional
        named = {} if named is None else named
        if type(positional) is not list or type(named) is not dict:
            raise Misfit(f"{at} must be an array and {by_name} an object")
        self._bind(positional, named)
        return self._lift(positional, named)

    def _lift(
        self, positional: list[Any], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple([self._lift_part(index, tree) for index, tree in enumerate(positional)])
        return args, {name: self._lift_part(name, tree) for name, tree in named.items()}

    def _lift_part(self, place: Place, tree: Any) -> Any:
        codec = self._codec(place)
        if type(tree) in codec.atoms:
            return tree
        try:
            return codec.lift(tree)
        except Exception as error:
            raise _At(place, error) from error


class _At(Exception):
    """Something about the argument at `place`."""

    def __init__(self, place: Place, error: Exception) -> None:
        super().__init__(place, error)
        self.place = place
        self.error = error
