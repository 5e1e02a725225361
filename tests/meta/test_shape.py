"""The size check finds what is too large, and exemptions must be needed and argued."""

from __future__ import annotations

import pytest

from tools.shape import excesses, verdicts


def module(lines: int) -> str:
    return "x = 1\n" * lines


def function(lines: int, head: str = "async def f():") -> str:
    return head + "\n" + "    x = 1\n" * (lines - 1)


def klass(methods: int, lines_each: int = 2) -> str:
    body = "        x = 1\n" * (lines_each - 1)
    return "class C:\n" + "".join(f"    def m{i}(self):\n{body}" for i in range(methods))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (module(500), []),
        (module(501), ["m.py"]),
        (function(60), []),
        (function(61), ["m.py:f"]),
        (klass(20), []),
        (klass(21), ["m.py:C"]),
        (klass(10, 35), ["m.py:C"]),
        (klass(21).replace("def m0", "def _m0"), []),
    ],
)
def test_what_is_over_a_ceiling_is_found(source: str, expected: list[str]) -> None:
    assert [e.key for e in excesses(source, "m.py")] == expected


def test_an_inner_function_is_found_under_its_qualified_name() -> None:
    inner = "\n".join("        " + line for line in function(61, "def g():").splitlines())
    source = f"class C:\n    def f(self):\n{inner}\n"
    assert [e.key for e in excesses(source, "m.py")] == ["m.py:C.f", "m.py:C.f.g"]


def test_an_exemption_hides_its_fault_and_must_be_needed_and_argued() -> None:
    found = list(excesses(module(501), "m.py"))
    assert len(verdicts(found, {})) == 1
    assert verdicts(found, {"m.py": "a table"}) == []
    assert "no reason" in verdicts(found, {"m.py": " "})[0]
    assert "not needed" in verdicts([], {"m.py": "a table"})[0]
