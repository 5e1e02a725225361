"""Errors come back as their own class where that is safe and known, else as `RemoteError`."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from http import HTTPStatus
from typing import Any
from uuid import UUID

import pytest

from perdure import errors
from perdure.errors import ConfigurationError, RemoteError
from tests.support.serialized import PORTABLE, make, raised

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
RAN: list[str] = []


class Declined(Exception):
    """Keeps what its constructor was given, under other names than it took it."""

    def __init__(self, *, card: str, amount: Decimal) -> None:
        RAN.append("Declined.__init__")
        super().__init__(f"{card} declined")
        self.card = card
        self.amount = amount
        self.code = "DECLINED"
        self.details = {"card": card}

    def __setattr__(self, name: str, value: object) -> None:
        RAN.append(f"set {name}")
        super().__setattr__(name, value)


class Slotted(ValueError):
    __slots__ = ("__secret", "_why")

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why
        self.__secret = (why, 1)

    def __str__(self) -> str:
        return f"{self._why} {self.__secret[1]}"


class Outside(Exception):
    """What it says is kept outside of it."""

    said = "before"

    def __str__(self) -> str:
        return self.said


class Holding(Exception):
    def __init__(self, what: object) -> None:
        super().__init__("holding")
        self.what = what


class Path404(FileNotFoundError):
    pass


@dataclass
class Plain(Exception):
    reason: str
    retry: bool = False


LISTED = (Declined, Slotted, Outside, Holding, Path404, Plain)


def back(error: BaseException, **options: Any) -> Exception:
    options.setdefault("errors", LISTED)
    codec = make(**options).errors
    return codec.decode(codec.encode(raised(error)), PORTABLE)


def envelope(error: BaseException) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(make().errors.encode(error))
    return tree


@pytest.mark.parametrize(
    "error",
    [
        ValueError("plain value error"),
        ValueError(),
        ValueError("a\x00b", 1, None),
        KeyError("k"),
        KeyError(("a", 1)),
        OSError(2, "nofile"),
        FileNotFoundError(2, "nofile", "data/x"),
        FileNotFoundError(2, "nofile", "data/x", None, "data/y"),
        TimeoutError(),
        ZeroDivisionError("division by zero"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        ImportError("no", name="x", path="/x"),
        NameError("no", name="x"),
        SyntaxError("bad", ("f.py", 1, 2, "text", 1, 3)),
        RuntimeError("mixed", b"x", NOON, Decimal("1.10"), UUID(int=1), {1, 2}, (3, [4])),
        RuntimeError({1: "a", "1": "b", "$tuple": [1]}, float("nan"), -0.0, 10**30),
        RuntimeError(ValueError("inner", KeyError(1))),
        RuntimeError("\ud800 lone"),
        ExceptionGroup("several", [ValueError(1), ExceptionGroup("more", [KeyError(2)])]),
    ],
    ids=repr,
)
def test_built_in_errors_come_back_as_themselves(error: Exception) -> None:
    again = back(error)
    assert type(again) is type(error)
    assert repr(again) == repr(error)
    assert str(again) == str(error)
    assert repr(again.__dict__) == repr(error.__dict__)
    for name in ("errno", "filename", "filename2", "name", "path", "lineno", "object"):
        assert repr(getattr(again, name, None)) == repr(getattr(error, name, None))


@pytest.mark.parametrize(
    "error",
    [
        Declined(card="visa", amount=Decimal("1.10")),
        Slotted("why"),
        Outside(),
        Holding([1, (2, NOON)]),
        Path404(2, "no", "f"),
        Plain("why", True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_listed_errors_come_back_as_themselves(error: Exception) -> None:
    again = back(error)
    assert type(again) is type(error)
    assert again.args == error.args
    assert again.__dict__ == error.__dict__
    assert str(again) == str(error)


def test_no_code_of_an_errors_class_runs_when_it_is_read() -> None:
    text = make().errors.encode(Declined(card="visa", amount=Decimal(1)))
    RAN.clear()
    again = make(errors=LISTED).errors.decode(text, PORTABLE)
    assert type(again) is Declined
    assert again.amount == Decimal(1)
    assert RAN == []


def test_an_error_known_to_the_engine_comes_back_as_itself() -> None:
    asked: list[tuple[str, str]] = []

    def known(module: str, qualname: str) -> type[BaseException] | None:
        asked.append((module, qualname))
        return Slotted

    again = back(Slotted("why"), errors=(), known=known)
    assert type(again) is Slotted
    assert asked == [(__name__, "Slotted")]


def test_an_unknown_error_is_remote_with_all_it_said() -> None:
    again = back(Declined(card="visa", amount=Decimal(1)), errors=())
    assert type(again) is RemoteError
    assert (again.name, again.message) == ("Declined", "visa declined")
    assert (again.code, again.data) == ("DECLINED", {"card": "visa"})
    assert "Declined: visa declined" in (again.traceback_text or "")
    assert "in fail" in (again.traceback_text or "")


def test_nothing_is_imported_because_a_row_names_it() -> None:
    ours = {"module": "wave", "qualname": "Error", "args": [], "attributes": {}}
    text = json.dumps({"name": "Error", "message": "m", "code": None, "perdure": ours})
    sys.modules.pop("wave", None)
    again = make().errors.decode(text, PORTABLE)
    assert type(again) is RemoteError
    assert "wave" not in sys.modules


@pytest.mark.parametrize(
    ("module", "qualname"),
    [
        ("builtins", "eval"),
        ("builtins", "KeyboardInterrupt"),
        ("builtins", "SystemExit"),
        ("builtins", "StopIteration"),
        ("builtins", "object"),
        ("builtins", "missing"),
        ("perdure.errors", "WorkflowCancelled"),
        ("perdure.errors", "Sequence"),
        ("perdure.errors", "PerdureError.__init__"),
        (3, None),
    ],
)
def test_a_row_cannot_choose_what_is_made(module: Any, qualname: Any) -> None:
    ours = {"module": module, "qualname": qualname, "args": ["1+1"], "attributes": {}}
    text = json.dumps({"name": "N", "message": "m", "code": 1, "perdure": ours})
    again = make().errors.decode(text, PORTABLE)
    assert type(again) is RemoteError
    assert (again.name, again.message, again.code) == ("N", "m", 1)


@pytest.mark.parametrize(
    "answer", [lambda *_: 1 // 0, lambda *_: KeyboardInterrupt, lambda *_: 5, lambda *_: int]
)
def test_a_wrong_answer_about_known_errors_is_none(answer: Any) -> None:
    assert type(back(Slotted("x"), errors=(), known=answer)) is RemoteError


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError("stop"),
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        StopIteration(4),
        StopAsyncIteration(),
        BaseExceptionGroup("g", [KeyboardInterrupt()]),
        errors.WorkflowCancelled("w"),
    ],
    ids=repr,
)
def test_what_would_act_as_a_signal_comes_back_as_an_ordinary_error(error: BaseException) -> None:
    again = back(error)
    assert type(again) is RemoteError
    assert (again.name, again.message) == (type(error).__name__, str(error))


@pytest.mark.parametrize("what", [threading.Lock(), object(), lambda: 1, HTTPStatus.OK, Plain("x")])
def test_an_error_whose_state_cannot_be_kept_is_stored_as_its_description(what: object) -> None:
    again = back(Holding(what), errors=(Holding,))
    if isinstance(what, Exception):
        assert type(again) is Holding
        assert type(again.what) is RemoteError
        return
    assert type(again) is RemoteError
    assert (again.name, again.message) == ("Holding", "holding")


def test_an_error_that_speaks_otherwise_when_made_again_is_stored_as_its_description() -> None:
    error = Outside()
    error.said = "after"
    error.__class__.said = "before"
    assert str(back(error)) == "after"

    class Forgetful(Exception):
        def __init__(self) -> None:
            super().__init__()
            memory[id(self)] = "known"

        def __str__(self) -> str:
            return memory.get(id(self), "forgotten")

    memory: dict[int, str] = {}
    again = back(Forgetful(), errors=(Forgetful,))
    assert type(again) is RemoteError
    assert again.message == "known"


def test_an_error_that_contains_itself_is_stored_as_its_description() -> None:
    error = Holding(None)
    error.what = [error]
    again = back(error)
    assert type(again) is RemoteError
    assert again.message == "holding"


def test_inner_errors_come_back_each_as_far_as_known() -> None:
    inner = [raised(ValueError(1)), raised(Declined(card="a", amount=Decimal(2)))]
    again = back(errors.StepRetriesExhausted("fetch", 2, inner), errors=())
    assert type(again) is errors.StepRetriesExhausted
    assert (again.step, again.attempts) == ("fetch", 2)
    assert [type(one) for one in again.errors] == [ValueError, RemoteError]
    assert "Declined" in (again.errors[1].traceback_text or "")  # type: ignore[attr-defined]


def test_notes_come_back() -> None:
    error = ValueError("x")
    error.add_note("while testing")
    assert back(error).__notes__ == ["while testing"]  # type: ignore[attr-defined]


def test_the_traceback_is_shown_as_the_cause() -> None:
    again = back(ValueError("x"))
    assert again.__cause__ is not None
    assert "in fail" in str(again.__cause__)


def test_a_remote_error_stays_the_same_however_often_it_is_passed_on() -> None:
    first = back(Declined(card="visa", amount=Decimal(1)), errors=())
    second = back(first, errors=())
    assert type(second) is RemoteError
    assert second.__dict__ == first.__dict__
    assert second.args == first.args


@pytest.mark.parametrize("wrong", [KeyboardInterrupt, int, "ValueError", ValueError("x")])
def test_only_classes_of_exceptions_can_be_listed(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="errors="):
        make(errors=(wrong,))
