"""Errors, both ways.

An error is stored as the envelope that every SDK reads, with one key more of ours that says which
class it was and what made that instance. It comes back as its own class only if that is built in,
one of the library's, listed for the engine, or already loaded and known to it; else as
`RemoteError`. Storing one never fails: whatever cannot be kept is left out.
"""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from perdure import errors as own
from perdure.errors import ConfigurationError, RemoteError
from perdure.serialization.codec import Misfit
from perdure.serialization.custom import Format
from perdure.serialization.envelope import (
    describe,
    message_of,
    read_envelope,
    traceback_of,
)
from perdure.serialization.equality import exactly
from perdure.serialization.pickled import Labels, dump_pickle, load_pickle, peek_pickle
from perdure.serialization.rebuilding import ErrorState, rebuild, state_of
from perdure.serialization.tagged import unwrap, wrap
from perdure.serialization.text import dump, parse
from perdure.serialization.values import undecodable

Chain = tuple[BaseException, ...]
"""An error after those that hold it, outermost first."""

KnownError = Callable[[str, str], type[BaseException] | None]

_OURS = "perdure"
_TRACEBACK_CHARACTERS = 16_000
_INNER_TRACEBACK_CHARACTERS = 2_000
_INNER_LEVELS = 10
_MESSAGE_CHARACTERS = 500
_NOT_RAISABLE = (StopIteration, StopAsyncIteration)
"""Raised in a coroutine, these would turn into a `RuntimeError` on the way."""


class RecordedTraceback(Exception):
    """The cause of an error read from a row: where it was raised, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class ErrorCodec:
    """Stores errors as the shared envelope; never fails to store one."""

    def __init__(
        self,
        limit: int,
        labels: Labels,
        errors: Sequence[type[BaseException]],
        known_error: KnownError,
    ) -> None:
        for cls in errors:
            if not (isinstance(cls, type) and issubclass(cls, Exception)):
                raise ConfigurationError(f"errors=[...]: {cls!r} is not a class of exceptions")
        self._limit = limit
        self._labels = labels
        self._listed = {(cls.__module__, cls.__qualname__): cls for cls in errors}
        self._known_error = known_error

    def encode(self, error: BaseException) -> str:
        """The stored text of any error; one that cannot be stored is stored as its description.

        What does not fit the engine's limit is left out: first the traceback, then what its class
        would come back with, then data, then the end of the message.
        """
        raw = dump({"name": "Error", "message": "", "code": None})
        for envelope in self._ever_less(error):
            try:
                raw = dump(envelope)
            except (Misfit, RecursionError):
                continue
            if len(raw) <= self._limit:
                break
        return raw.decode()

    def encode_as(self, serialization: str | None, error: BaseException) -> str:
        """As `encode`, in the format of a row that has a label already."""
        custom = self._labels.custom(serialization)
        if custom is not None:
            return self._encode_by(custom, error)
        try:
            if not self._labels.writes_pickle(serialization):
                return self.encode(error)
            text = self._pickled(error)
        except Misfit:
            text = ""
        if text and len(text) <= self._limit:
            return text
        description = f"{type(error).__name__}: {message_of(error)}"
        return dump_pickle(Exception(description[:_MESSAGE_CHARACTERS]))

    def _encode_by(self, custom: Format, error: BaseException) -> str:
        """In a format of the user's own; plainly, and of no more than its name, if that fails."""
        for envelope in self._ever_less(error):
            try:
                text = custom.write(parse(dump(envelope).decode()))
            except (Misfit, RecursionError):
                continue
            if len(text.encode()) <= self._limit:
                return text
        return dump({"name": type(error).__name__, "message": "", "code": None}).decode()

    def decode(self, text: str | None, serialization: str | None) -> Exception:
        """The error of a row's text: its own class where that is known, else `RemoteError`.

        Never raises. What is not an exception one may catch as `Exception`, such as a recorded
        `asyncio.CancelledError`, is a `RemoteError`: it must not be taken for a signal.
        """
        if text is None:
            return RemoteError("Error", "no error was recorded")
        try:
            if self._labels.is_pickled(text, serialization):
                return self._unpickled(load_pickle(text))
        except Misfit as misfit:
            if text.startswith("gA"):
                name, message = peek_pickle(text)
                return RemoteError(name, f"{message} ({misfit.reason})")
        try:
            tree = self._labels.tree(text, serialization)
            return self._unpickled(tree) if isinstance(tree, Exception) else self._read(tree, text)
        except (Misfit, RecursionError):
            return RemoteError("Error", text)

    def recorded(self, text: str | None, serialization: str | None) -> Exception:
        """As `decode`, for a replay, which must go the way the first run went.

        Raises `FormatUnavailable` where `decode` would describe an error in words.
        """
        try:
            if text is not None:
                self._labels.is_pickled(text, serialization)
        except Misfit as misfit:
            raise undecodable("a recorded error", serialization, "$", misfit) from misfit
        return self.decode(text, serialization)

    def _ever_less(self, error: BaseException) -> Iterator[dict[str, Any]]:
        envelope = self._envelope(error, ())
        yield envelope
        envelope.get(_OURS, {}).pop("traceback", None)
        yield envelope
        envelope.pop(_OURS, None)
        yield envelope
        envelope.pop("data", None)
        yield envelope
        for name, text in envelope.items():
            if type(text) is str:
                envelope[name] = text[:_MESSAGE_CHARACTERS]
        yield envelope
        yield {"name": envelope["name"], "message": "", "code": None}

    def _envelope(self, error: BaseException, outer: Chain) -> dict[str, Any]:
        envelope = describe(error)
        ours: dict[str, Any] = {}
        if not isinstance(error, RemoteError):
            cls = type(error)
            ours.update(module=cls.__module__, qualname=cls.__qualname__)
            ours.update(self._proven_state(error, outer))
        limit = _INNER_TRACEBACK_CHARACTERS if outer else _TRACEBACK_CHARACTERS
        if trace := traceback_of(error, limit):
            ours["traceback"] = trace
        return {**envelope, _OURS: ours} if ours else envelope

    def _proven_state(self, error: BaseException, outer: Chain) -> dict[str, Any]:
        """The state to store, if an equal error is made of it again; else nothing."""
        chain = (*outer, error)

        def inner(part: BaseException) -> dict[str, Any]:
            if len(chain) > _INNER_LEVELS or any(part is one for one in chain):
                raise Misfit("errors that hold errors without end")
            return self._envelope(part, chain)

        try:
            state = state_of(error)
            stored = {
                "args": wrap(list(state.args), inner),
                "attributes": wrap(state.attributes, inner),
            }
            again = self._rebuilt(type(error), parse(dump(stored).decode()))
            same = exactly(_brief(state), _brief(state_of(again)))
            return stored if same and message_of(again) == message_of(error) else {}
        except Exception:  # noqa: BLE001  whatever its parts do, the error is still stored
            return {}

    def _rebuilt(self, cls: type[BaseException], stored: dict[str, Any]) -> BaseException:
        args = unwrap(stored["args"], self._read_inner)
        attributes = unwrap(stored["attributes"], self._read_inner)
        return rebuild(cls, ErrorState(tuple(args), attributes))

    def _read_inner(self, envelope: Any) -> Exception:
        return self._read(envelope, message_of(envelope))

    def _read(self, tree: Any, text: str) -> Exception:
        ours = tree.get(_OURS) if type(tree) is dict else None
        if type(ours) is not dict:
            return read_envelope(tree, text)
        trace = ours.get("traceback")
        trace = trace if type(trace) is str else None
        error = self._own_class(ours)
        if error is None:
            remote = read_envelope(tree, text)
            remote.traceback_text = trace
            error = remote
        if trace:
            # Not by assignment, which a class of the user's may have its own idea of.
            object.__setattr__(error, "__cause__", RecordedTraceback(trace))
        return error

    def _own_class(self, ours: dict[str, Any]) -> Exception | None:
        if "args" not in ours:
            return None
        cls = self._find(ours.get("module"), ours.get("qualname"))
        if cls is None:
            return None
        try:
            error = self._rebuilt(cls, ours)
        except Exception:  # noqa: BLE001  a row may say anything
            return None
        return error if isinstance(error, Exception) else None

    def _find(self, module: Any, qualname: Any) -> type[BaseException] | None:
        """The class of that name if it may come back; nothing is imported to find it."""
        if type(module) is not str or type(qualname) is not str:
            return None
        cls: Any = self._listed.get((module, qualname))
        if cls is None and module in (builtins.__name__, own.__name__):
            cls = getattr(builtins if module == builtins.__name__ else own, qualname, None)
        if cls is None:
            try:
                cls = self._known_error(module, qualname)
            except Exception:  # noqa: BLE001  not finding the class is an answer
                return None
        is_error = isinstance(cls, type) and issubclass(cls, Exception)
        return cls if is_error and not issubclass(cls, _NOT_RAISABLE) else None

    def _pickled(self, error: BaseException) -> str:
        """The pickle of an error that any Python process with its class can read, or ''."""
        if not isinstance(error, Exception) or type(error).__module__ == own.__name__:
            return ""
        text = dump_pickle(error)
        again = load_pickle(text)
        same = type(again) is type(error) and message_of(again) == message_of(error)
        return text if same else ""

    def _unpickled(self, value: Any) -> Exception:
        if isinstance(value, Exception) and not isinstance(value, _NOT_RAISABLE):
            return value
        return RemoteError(type(value).__name__, message_of(value))


def _brief(state: ErrorState) -> Any:
    """A state to compare: errors within it, which are proven on their own, by name alone."""
    return wrap([list(state.args), state.attributes], lambda inner: describe(inner)["name"])
