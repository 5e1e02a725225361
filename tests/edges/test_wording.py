"""Values in words."""

from __future__ import annotations

import json

import pytest

from perdure.cli.payloads import payload
from perdure.cli.wording import iso_time, local_time, printable, size


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_234_567, "1.2 MB"),
        (45_600_000_000, "45.6 GB"),
        (10**18, "1,000.0 PB"),
    ],
)
def test_sizes(number: int, words: str) -> None:
    assert size(number) == words


def test_instants() -> None:
    assert iso_time(1_700_000_000_123) == "2023-11-14T22:13:20.123+00:00"
    assert iso_time(None) is None
    assert local_time(None) == ""
    assert len(local_time(1_700_000_000_123)) == len("2023-11-14 22:13:20")
    assert str(iso_time(2**63 - 1)).startswith("9999-12-31")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢", "plain é 漢"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("two\nlines\u2028", "two\\nlines\\u2028"),
        ("bytes \udcff", "bytes \\xff"),
        ("half \ud800", "half \\ud800"),
        ("both \ud800\udcff", "both \\ud800\\xff"),
    ],
)
def test_no_text_from_outside_steers_the_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown
    shown.encode()


def test_payloads_are_read_as_json_and_nothing_else() -> None:
    assert payload('{"a": 1}', "portable_json").value == {"a": 1}
    assert payload("[1]", None).value == [1]
    assert payload(None, "portable_json").value is None
    for label in ("py_pickle", "js_superjson"):
        raw = payload('"text"', label)
        assert (raw.value, raw.is_raw) == ('"text"', True)
        assert raw.as_text() == f'not read here ({label}): "text"'
    assert payload("no json", "portable_json").value == "no json"


def test_payloads_in_words() -> None:
    call = json.dumps({"positionalArgs": ["intro", 2], "namedArgs": {"fast": True}})
    assert payload(call, None).as_arguments() == '"intro", 2, fast=true'
    assert payload('{"x": 1}', None).as_arguments() == '{"x": 1}'
    assert payload("{}", None).as_arguments() == "{}"
    error = json.dumps({"name": "ValueError", "message": "no", "code": None})
    assert payload(error, None).as_error() == "ValueError: no"
    assert payload('"text"', None).as_error() == '"text"'
