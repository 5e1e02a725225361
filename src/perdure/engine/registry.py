"""Which functions are durable, under which name, and how their values are stored."""

import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from perdure.errors import NotRegistered, RegistrationError
from perdure.model.wire import PORTABLE_JSON
from perdure.model.workflow import WorkflowKey
from perdure.serialization import (
    ArgumentsCodec,
    Serialization,
    ValueCodec,
    annotations_of,
)

MAX_RECOVERY_ATTEMPTS = 100
"""How often a run is begun again after its process died, unless its function says otherwise."""

NAMES_KEPT = 1000
"""Codecs of one function under different names; a name may be made of data."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkflowDefinition:
    """A function that is a workflow."""

    fn: Callable[..., Any]
    key: WorkflowKey
    max_recovery_attempts: int = MAX_RECOVERY_ATTEMPTS
    required_roles: tuple[str, ...] = ()
    origin: tuple[str, str, int] = field(init=False)
    """Where the code stands: the same code imported under two module names is one function."""

    def __post_init__(self) -> None:
        code = inspect.unwrap(self.fn).__code__
        origin = code.co_filename, self.fn.__qualname__, code.co_firstlineno
        object.__setattr__(self, "origin", origin)

    @property
    def is_local(self) -> bool:
        """Whether it was defined inside another function, so that only a list can register it."""
        return "<locals>" in self.fn.__qualname__

    def __str__(self) -> str:
        filename, qualname, line = self.origin
        return f"{self.fn.__module__}.{qualname} ({filename}:{line})"


class Decorated:
    """Everything decorated in this process. The one piece of module state, behind a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workflows: list[WorkflowDefinition] = []
        self._modules: set[str] = set()

    def add_workflow(self, definition: WorkflowDefinition) -> None:
        """Note a decorated workflow."""
        with self._lock:
            self._modules.add(definition.fn.__module__)
            if not definition.is_local:
                self._workflows.append(definition)

    def add_module(self, module: str) -> None:
        """Note that a module decorates something, so that its exception classes are known."""
        with self._lock:
            self._modules.add(module)

    def workflows(self) -> list[WorkflowDefinition]:
        """Every workflow decorated at the top level of a module or class."""
        with self._lock:
            return list(self._workflows)

    def error_class(self, module: str, qualname: str) -> type[BaseException] | None:
        """A class of that name in a module already loaded and known; nothing is imported."""
        with self._lock:
            known = module in self._modules
        found: Any = sys.modules.get(module) if known else None
        for part in qualname.split("."):
            found = getattr(found, part, None)
        is_error = isinstance(found, type) and issubclass(found, BaseException)
        return found if is_error else None


DECORATED = Decorated()


class WorkflowCodecs(msgspec.Struct, frozen=True):
    """How one workflow's arguments and result are stored."""

    arguments: ArgumentsCodec
    result: ValueCodec[Any]


@dataclass(slots=True)
class Registry:
    """The workflows one engine runs, by key, and the codecs of everything it calls."""

    serialization: Serialization
    _by_key: dict[WorkflowKey, WorkflowDefinition] = field(default_factory=dict)
    _codecs: dict[Callable[..., Any], WorkflowCodecs] = field(default_factory=dict)
    _results: WeakKeyDictionary[Callable[..., Any], dict[str, ValueCodec[Any]]] = field(
        default_factory=WeakKeyDictionary
    )
    _untyped: dict[str, ValueCodec[Any]] = field(default_factory=dict)

    def register(self, definitions: Iterable[WorkflowDefinition]) -> None:
        """Add workflows; raises `RegistrationError` when two different ones want one name."""
        for definition in definitions:
            standing = self._by_key.setdefault(definition.key, definition)
            if standing.origin != definition.origin:
                raise RegistrationError(
                    f"two workflows want the name {str(definition.key)!r}: {standing} and "
                    f"{definition}; give one of them another with @workflow(name=...)"
                )

    def step_label(self, serialization: str | None) -> str:
        """The format in which a run writes its steps whose own is the one given."""
        if serialization == PORTABLE_JSON:
            return PORTABLE_JSON
        return self.serialization.label_for(serialization)

    @property
    def keys(self) -> tuple[WorkflowKey, ...]:
        """The keys of all registered workflows."""
        return tuple(self._by_key)

    def known(self, key: WorkflowKey) -> WorkflowDefinition:
        """The workflow of a key that is known to be registered."""
        return self._by_key[key]

    def find(self, key: WorkflowKey) -> WorkflowDefinition | None:
        """The workflow of that key, or None."""
        return self._by_key.get(key)

    def require(self, definition: WorkflowDefinition) -> WorkflowDefinition:
        """The registered definition equal to this one; raises `NotRegistered`."""
        standing = self._by_key.get(definition.key)
        if standing is definition:
            return standing
        if standing is None or standing.origin != definition.origin:
            raise NotRegistered(
                f"this engine does not know the workflow {definition}; pass it in "
                "Engine(workflows=[...]), or import its module before the engine starts"
            )
        return standing

    def prepare(self) -> None:
        """Build every workflow's codecs; raises `RegistrationError` for one that cannot work."""
        for definition in self._by_key.values():
            self.codecs(definition)

    def codecs(self, definition: WorkflowDefinition) -> WorkflowCodecs:
        """How the workflow's values are stored."""
        codecs = self._codecs.get(definition.fn)
        if codecs is None:
            name = str(definition.key)
            codecs = WorkflowCodecs(
                self.serialization.arguments(definition.fn, f"workflow {name!r}"),
                self.result_codec(definition.fn, name),
            )
            self._codecs[definition.fn] = codecs
        return codecs

    def result_codec(self, fn: Callable[..., Any], name: str) -> ValueCodec[Any]:
        """How the value `fn` returns is stored, by its return annotation; errors call it `name`.

        Functions are made anew all the time (lambdas, closures): none is kept alive by this.
        """
        plain = inspect.unwrap(fn)
        is_annotated = bool(getattr(plain, "__annotations__", True))
        codecs = self._kept_for(plain) if is_annotated else self._untyped
        codec = codecs.get(name)
        if codec is None:
            if len(codecs) >= NAMES_KEPT:
                codecs.clear()
            annotation = annotations_of(fn)["return"] if is_annotated else Any
            codec = codecs[name] = self.serialization.value(annotation, f"result of {name!r}")
        return codec

    def _kept_for(self, fn: Callable[..., Any]) -> dict[str, ValueCodec[Any]]:
        try:
            return self._results.setdefault(getattr(fn, "__func__", fn), {})
        except TypeError:
            # Neither hashable nor weakly referable: built each time.
            return {}
