"""No error fails to be stored, and none comes back as something else than it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import RemoteError
from tests.support.serialized import PICKLE, PORTABLE, fingerprint, make, strict

texts = st.text(st.characters(exclude_categories=()), max_size=20)
atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary(max_size=5)
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.timedeltas()
    | st.uuids()
)
parts = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(atoms, inner, max_size=3),
        st.sets(atoms, max_size=3),
        st.lists(inner, max_size=3).map(lambda args: ValueError(*args)),
    ),
    max_leaves=8,
)


class Custom(Exception):
    def __init__(self, args: list[Any], attributes: dict[str, Any]) -> None:
        super().__init__(*args)
        self.__dict__.update(attributes)


errors = st.builds(Custom, st.lists(parts, max_size=3), st.dictionaries(texts, parts, max_size=3))
CLASSES = ["ValueError", "OSError", "SyntaxError", "ImportError", "UnicodeDecodeError", "KeyError"]
CLASSES += ["ExceptionGroup", "SystemExit", "StepRetriesExhausted", "ValueTooLarge"]
TAGS = ["$tuple", "$datetime", "$error", "$dict", "$set", "$float", "$bytes", "$other"]
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "message", *TAGS]) | texts, inner, max_size=2)
    ),
)
envelopes = st.fixed_dictionaries(
    {"name": trees, "message": trees},
    optional={
        "code": trees,
        "data": trees,
        "perdure": trees
        | st.fixed_dictionaries(
            {
                "module": st.sampled_from(["builtins", "perdure.errors"]) | trees,
                "qualname": st.sampled_from(CLASSES) | trees,
                "args": st.lists(trees, max_size=5) | trees,
                "attributes": st.dictionaries(texts, trees, max_size=3) | trees,
            },
            optional={"traceback": trees},
        ),
    },
)
texts_of_rows = texts | st.one_of(trees, envelopes).map(json.dumps)


@given(errors)
def test_an_error_comes_back_as_it_was_or_as_its_description(error: Custom) -> None:
    text = make(errors=(Custom,)).errors.encode(error)
    strict(text)
    again = make(errors=(Custom,)).errors.decode(text, PORTABLE)
    if type(again) is Custom:
        assert fingerprint(list(again.args)) == fingerprint(list(error.args))
        assert fingerprint(again.__dict__) == fingerprint(error.__dict__)
    else:
        assert type(again) is RemoteError
        assert again.name == "Custom"


@given(errors, st.integers(0, 3_000), st.booleans())
def test_an_error_is_stored_within_any_limit(error: Custom, limit: int, unpickle: bool) -> None:
    codec = make(errors=(Custom,), limit=limit, unpickle=unpickle).errors
    least = len('{"name":"Custom","message":"","code":null}')
    assert len(codec.encode(error).encode()) <= max(limit, least)
    assert isinstance(codec.decode(codec.encode(error), PORTABLE), Custom | RemoteError)
    assert isinstance(codec.decode(codec.encode_as(PICKLE, error), PICKLE), Exception)


@given(
    texts_of_rows,
    st.sampled_from([PORTABLE, PICKLE, None, "", "js_superjson"]),
    st.booleans(),
)
def test_whatever_a_row_says_reading_its_error_gives_an_error(
    text: str, label: str | None, unpickle: bool
) -> None:
    again = make(unpickle=unpickle).errors.decode(text, label)
    assert isinstance(again, Exception)
    assert repr(again)
    assert isinstance(str(again), str)
