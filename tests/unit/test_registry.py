"""Which functions are durable, under which names, and what is refused at decoration."""

from __future__ import annotations

import gc
import importlib.util
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perdure import ConfigurationError, run_step, step, workflow
from perdure.api import engine as engine_module
from perdure.api import step as step_module
from perdure.api import workflow as workflow_module
from perdure.engine.registry import Decorated, Registry, WorkflowDefinition
from perdure.errors import NotRegistered, RegistrationError, UnserializableValue
from perdure.model.workflow import WorkflowKey
from perdure.serialization import Serialization

SOURCE = """
from perdure import step, workflow

class Trouble(Exception):
    class Deep(Exception): ...

@workflow
async def work(x: int) -> None: ...

class Shop:
    @workflow(name="sell")
    async def sell(self) -> None: ...

def factory():
    @workflow
    async def inner() -> None: ...
    return inner
"""


@pytest.fixture
def decorated(monkeypatch: pytest.MonkeyPatch) -> Decorated:
    """A fresh list of everything decorated."""
    fresh = Decorated()
    for module in (engine_module, step_module, workflow_module):
        monkeypatch.setattr(module, "DECORATED", fresh)
    return fresh


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    """A module that decorates, as a file."""
    path = tmp_path / "shop.py"
    path.write_text(SOURCE)
    before = set(sys.modules)
    yield path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def registry(*definitions: WorkflowDefinition) -> Registry:
    fresh = Registry(Serialization(1 << 20, unpickle=False, errors=(), known_error=lambda *_: None))
    fresh.register(definitions)
    return fresh


def names(definitions: list[WorkflowDefinition]) -> list[str]:
    return [str(each.key) for each in definitions]


def test_workflows_of_modules_and_classes_are_noted_and_local_ones_are_not(
    decorated: Decorated, source: Path
) -> None:
    module = load(source, "shop")
    local = module.factory()
    assert names(decorated.workflows()) == ["work", "sell"]
    assert local.name == "factory.<locals>.inner"


def test_the_same_code_under_two_module_names_is_one_function(
    decorated: Decorated, source: Path
) -> None:
    load(source, "shop")
    again = load(source, "package.shop")
    known = registry(*decorated.workflows())
    assert names(decorated.workflows()) == ["work", "sell"] * 2
    assert set(known.keys) == {WorkflowKey("work"), WorkflowKey("sell")}
    assert known.require(again.work.definition).key.name == "work"


def test_two_functions_that_want_one_name_are_an_error_naming_both(
    decorated: Decorated, source: Path, tmp_path: Path
) -> None:
    other = tmp_path / "market.py"
    other.write_text(SOURCE)
    load(source, "shop")
    load(other, "market")
    with pytest.raises(RegistrationError, match=r"'work'.*shop\.py.*market\.py.*name="):
        registry(*decorated.workflows())


def test_a_workflow_the_engine_does_not_know_is_refused_with_the_remedy(
    decorated: Decorated, source: Path
) -> None:
    module = load(source, "shop")
    with pytest.raises(NotRegistered, match=r"workflows=\[\.\.\.\]"):
        registry().require(module.work.definition)


def test_exception_classes_are_found_in_modules_that_decorate_and_nowhere_else(
    decorated: Decorated, source: Path
) -> None:
    """Nothing is imported, and no attribute of a class is followed outside its module's names."""
    module = load(source, "shop")
    assert decorated.error_class("shop", "Trouble") is module.Trouble
    assert decorated.error_class("shop", "Trouble.Deep") is module.Trouble.Deep
    for wrong in (
        ("shop", "Missing"),
        ("shop", "work"),
        ("shop", "Shop"),
        ("os", "error"),
        ("json", "JSONDecodeError"),
        ("not_loaded", "Trouble"),
        ("shop", "factory.<locals>.Trouble"),
    ):
        assert decorated.error_class(*wrong) is None
    assert "not_loaded" not in sys.modules


def test_a_name_is_the_qualified_one_unless_given(decorated: Decorated) -> None:
    @workflow
    async def plain() -> None: ...

    @workflow(name="named", max_recovery_attempts=3)
    async def other() -> None: ...

    @step
    async def work() -> None: ...

    @step(name="called")
    def called() -> None: ...

    here = "test_a_name_is_the_qualified_one_unless_given.<locals>"
    assert (plain.name, other.name) == (f"{here}.plain", "named")
    assert (work.name, called.name) == (f"{here}.work", "called")
    assert (other.definition.max_recovery_attempts, plain.definition.max_recovery_attempts) == (
        3,
        100,
    )


def test_decorated_functions_keep_name_doc_and_signature_and_the_plain_one(
    decorated: Decorated,
) -> None:
    async def original(x: int) -> int:
        """What it does."""
        return x

    for made in (workflow(original), step(original)):
        assert made.fn is original
        assert made.__name__ == "original"
        assert made.__doc__ == "What it does."
        assert made.__wrapped__ is original


def refused_generator() -> Any:
    yield 1


async def refused_async_generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    "fn",
    [refused_generator, refused_async_generator, 5, "name", None],
    ids=lambda fn: getattr(fn, "__name__", str(fn)),
)
def test_what_cannot_be_called_and_awaited_once_is_refused(decorated: Decorated, fn: Any) -> None:
    """At decoration, saying why."""
    for decorate in (workflow(name="x"), step(name="x")):
        with pytest.raises(RegistrationError, match=r"generator function|not a function"):
            decorate(fn)
    if fn is not None:
        with pytest.raises(RegistrationError):
            run_step("x", fn)


def test_a_plain_function_is_no_workflow_and_the_message_says_what_to_do(
    decorated: Decorated,
) -> None:
    def blocking() -> None: ...

    with pytest.raises(RegistrationError, match="`def` steps"):
        workflow(blocking)  # type: ignore[type-var]


@pytest.mark.parametrize("name", ["", "  ", "nul\x00", "line\nbreak", "tab\t", 7])
def test_a_name_that_cannot_be_stored_or_shown_is_refused(decorated: Decorated, name: Any) -> None:
    async def fn() -> None: ...

    with pytest.raises(RegistrationError, match="cannot be a name"):
        workflow(name=name)(fn)
    with pytest.raises(RegistrationError, match="cannot be a name"):
        step(name=name)(fn)
    with pytest.raises(RegistrationError, match="cannot be a name"):
        run_step(name, fn)


@pytest.mark.parametrize(
    "options",
    [
        {"max_recovery_attempts": -1},
        {"max_recovery_attempts": True},
        {"max_recovery_attempts": 2.0},
        {"max_recovery_attempts": None},
        {"retries": 3},
    ],
    ids=str,
)
def test_options_that_cannot_work_are_refused(decorated: Decorated, options: Any) -> None:
    (name,) = options
    with pytest.raises(ConfigurationError, match=name):
        workflow(**options)


def test_only_workflows_can_be_listed(decorated: Decorated) -> None:
    async def plain() -> None: ...

    for wrong in (plain, step(plain), "name", None):
        with pytest.raises(RegistrationError, match="decorated with @workflow"):
            engine_module.Engine("memory:", workflows=[wrong])  # type: ignore[list-item]


def test_an_engine_takes_all_that_is_decorated_by_default_and_else_what_is_listed(
    decorated: Decorated, source: Path
) -> None:
    """A local workflow only when it is listed; a collision is an error when the engine is made."""
    module = load(source, "shop")
    local = module.factory()
    engine_module.Engine("memory:")
    engine_module.Engine("memory:", workflows=[local, module.work])
    clash = load(source.rename(source.with_name("moved.py")), "moved")
    with pytest.raises(RegistrationError, match="work"):
        engine_module.Engine("memory:")
    engine_module.Engine("memory:", workflows=[clash.work])


@pytest.mark.parametrize("annotated", [False, True], ids=["lambda", "closure"])
async def test_a_function_made_for_one_step_is_not_kept_alive(annotated: bool) -> None:
    """A process that makes lambdas for years does not grow by what they hold."""

    class Held:
        pass

    def made(held: Held) -> Callable[[], Any]:
        def typed() -> int:
            return int(held is None)

        return typed if annotated else lambda: int(held is None)

    @workflow(name="calls")
    async def calls() -> Any:
        held = Held()
        references.append(weakref.ref(held))
        return await run_step("made", made(held))

    references: list[weakref.ref[Held]] = []
    async with engine_module.Engine("memory:", workflows=[calls], heartbeat=0.1):
        assert [await calls() for _ in range(3)] == [0, 0, 0]
        gc.collect()
        assert [each() for each in references] == [None] * 3


async def test_a_function_under_several_names_is_named_as_it_was_called() -> None:
    """The error of a value that cannot be stored names the step it came from."""

    def typed() -> int:
        return "no number"  # type: ignore[return-value]

    @workflow(name="calls")
    async def calls(name: str, fn: str) -> Any:
        return await run_step(name, typed if fn == "typed" else (lambda: object()))  # noqa: PLW0108

    async with engine_module.Engine("memory:", workflows=[calls], heartbeat=0.1):
        for name in ("first", "second"):
            for fn in ("typed", "lambda"):
                with pytest.raises(UnserializableValue, match=f"result of '{name}'"):
                    await calls(name, fn)


def test_codecs_of_names_made_of_data_are_not_kept_without_end() -> None:
    known = registry()
    for number in range(5_000):
        known.result_codec(lambda: None, f"fetch-{number}")
        known.result_codec(names, f"fetch-{number}")
    kept = [len(codecs) for codecs in (known._untyped, *known._results.values())]  # noqa: SLF001
    assert all(0 < count <= 1_000 for count in kept)
