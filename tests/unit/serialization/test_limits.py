"""Cycles, depth and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from perdure.errors import ValueTooLarge
from tests.support.serialized import PORTABLE, WHAT, make, refused, round_trip, unreadable


@dataclass
class Node:
    name: str
    children: list[Node]


def nested(depth: int, leaf: Any = None) -> Any:
    value = [] if leaf is None else leaf
    for _ in range(depth - (leaf is None)):
        value = [value]
    return value


def chain(depth: int) -> Node:
    node = Node("leaf", [])
    for _ in range(depth):
        node = Node("n", [node])
    return node


def test_a_cycle_is_refused_where_it_closes() -> None:
    value: dict[str, Any] = {"a": [0, {}]}
    value["a"][1]["back"] = value["a"]
    refusal = refused(Any, value)
    assert refusal.path == "$.a[1].back"
    assert refusal.reason == "it contains itself"


def test_a_cycle_of_annotated_objects_is_refused() -> None:
    node = Node("n", [])
    node.children.append(node)
    refusal = refused(Node, node)
    assert refusal.path == "$.children[0]"
    assert refusal.reason == "it contains itself"


def test_depth_has_a_limit_far_below_the_stack() -> None:
    round_trip(Any, nested(200))
    refusal = refused(Any, nested(201))
    assert refusal.path == "$" + "[0]" * 8 + "…"
    assert "200 levels" in refusal.reason


@pytest.mark.parametrize("depth", [900, 1_100, 50_000])
def test_whatever_the_depth_no_recursion_error_escapes(depth: int) -> None:
    assert "nested" in refused(Any, nested(depth)).reason


def test_annotated_depth_is_limited_alike() -> None:
    round_trip(Node, chain(99))
    assert "200 levels" in refused(Node, chain(100)).reason
    assert "nested" in refused(Node, chain(5_000)).reason


def test_a_wide_value_is_not_a_deep_one() -> None:
    round_trip(Any, [[] for _ in range(1_000)])


def test_brackets_in_texts_are_not_depth() -> None:
    round_trip(Any, ["[" * 1_000, "{" * 1_000])


def test_what_is_stored_is_read_even_deep_in_a_stack() -> None:
    codec = make().value(Node, WHAT)
    text = codec.encode(chain(99))[0]

    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else codec.decode(text, PORTABLE)

    assert deep(200) == chain(99)


def test_a_text_nested_beyond_the_stack_is_unreadable() -> None:
    text = '{"name":"n","children":[' * 5_000 + "]}" * 5_000
    assert "nested too deeply" in unreadable(Node, text)
    assert "nested too deeply" in unreadable(Any, "[" * 100_000 + "]" * 100_000)


def test_the_size_of_the_stored_bytes_is_limited() -> None:
    codec = make(limit=10).value(Any, WHAT)
    assert codec.encode("x" * 8)[0] == '"xxxxxxxx"'
    for value in ("x" * 9, "é" * 5, ["x" * 7], {"a": 12345}):
        with pytest.raises(ValueTooLarge) as caught:
            codec.encode(value)
        assert caught.value.limit == 10
        assert 10 < caught.value.size < 14
        assert WHAT in str(caught.value)


def test_a_large_value_is_stored_within_its_limit() -> None:
    text = make(limit=5_000_002).value(str, WHAT).encode("x" * 5_000_000)[0]
    assert len(text) == 5_000_002
