"""What a caller asks to be done to workflows: a command, or a refusal before anything is done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from perdure.api.commands import Result
from perdure.api.management import ForkOptions, Workflows
from perdure.engine.desk import Desk
from perdure.engine.registry import DECORATED
from perdure.engine.system import SystemIds
from perdure.errors import SerializationError, UsageError
from perdure.model.management import Command, LastStep
from perdure.serialization import Serialization

WORDS = st.sampled_from(["", " ", "a", "é", "x" * 600, "\x00", "\ud800", "_dbos_q", "line"])
SCALARS = st.one_of(
    WORDS,
    st.sampled_from([None, True, False, 0, 1, 2, -1, 2**31, 2**70, 0.5, float("nan"), b"b"]),
    st.sampled_from([datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), timedelta(1)]),  # noqa: DTZ001
    st.sampled_from([*LastStep, object(), float("inf"), timedelta(-1), timedelta.max]),
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(SCALARS, SCALARS, max_size=2)
)
OPTIONS = st.dictionaries(
    st.sampled_from(
        [*ForkOptions.__annotations__, "id", "fork_ids", "merge", "until", "delay", "limit"]
    ),
    VALUES,
    max_size=3,
)
METHODS = [
    "cancel",
    "resume",
    "fork",
    "fork_many",
    "rewind",
    "delete",
    "set_delay",
    "set_attributes",
]


class Asked(Workflows):
    """Commands that are given to nobody."""

    def __init__(self) -> None:
        serialization = Serialization(10_000, unpickle=False, errors=(), known_error=known)
        speaker = SimpleNamespace(serialization=serialization, store=None, retry=None)
        desk = SimpleNamespace(speaker=speaker, ids=SystemIds())
        super().__init__(cast("Desk", desk), records=False)

    def _give(self, command: Command, result: Result[Any]) -> Any:
        del result
        return command


def known(module: str, name: str) -> type[BaseException] | None:
    return DECORATED.error_class(module, name)


@given(st.sampled_from(METHODS), st.lists(VALUES, min_size=1, max_size=2), OPTIONS)
def test_anything_is_a_command_or_a_typed_refusal(
    method: str, arguments: list[Any], options: dict[str, Any]
) -> None:
    try:
        command = getattr(Asked(), method)(*arguments, **options)
    except (UsageError, SerializationError):
        return
    except TypeError as error:
        # Python's own refusal, of an argument that the method does not have.
        if "argument" not in str(error):
            raise
        return
    assert isinstance(command, Command)
    _storable(msgspec.to_builtins(command))


def _storable(value: Any) -> None:
    """Every text and number of it has a place in a row of every database."""
    if isinstance(value, dict):
        for each in value.values():
            _storable(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _storable(each)
    elif isinstance(value, str):
        assert value.strip()
        assert "\x00" not in value
        value.encode()
    elif value is not None:
        assert isinstance(value, int)
        assert abs(value) < 2**63
