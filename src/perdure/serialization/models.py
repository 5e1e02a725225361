"""Pydantic models and pydantic dataclasses, by their own validators and serializers.

Pydantic is never imported here: a class of its making carries all that is needed. Its round trip
is not exact by construction, so every value is read back and compared when it is stored.
"""

from typing import Any

from perdure.serialization.codec import ANY_KIND, Codec, Misfit, at_key, wrong_type
from perdure.serialization.equality import exactly
from perdure.serialization.plain import copy_plain
from perdure.serialization.text import dump


def is_model(cls: type) -> bool:
    """Whether pydantic made this class."""
    return hasattr(cls, "__pydantic_validator__") and hasattr(cls, "__pydantic_serializer__")


class ModelCodec(Codec):
    """Instances of exactly one pydantic class."""

    __slots__ = ("_cls", "free_text", "kinds", "label", "types")

    def __init__(self, cls: type, label: str) -> None:
        is_root = bool(getattr(cls, "__pydantic_root_model__", False))
        self.label = label
        self.types = frozenset({cls})
        self.kinds = ANY_KIND if is_root else frozenset({dict})
        self.free_text = is_root
        self._cls: Any = cls

    def lower(self, value: Any) -> Any:
        if type(value) is not self._cls:
            raise wrong_type(value, self.label)
        try:
            dumped = self._cls.__pydantic_serializer__.to_python(
                value, mode="json", by_alias=True, round_trip=True, warnings=False
            )
        except Exception as error:
            raise Misfit(f"{self.label} could not be written: {error}") from error
        tree = copy_plain(dumped)
        self._compare(value, self.lift(tree))
        return tree

    def _compare(self, value: Any, read: Any) -> None:
        if exactly(read, value):
            return
        misfit = Misfit(
            "pydantic reads it back as another value; give the field a type that keeps it"
        )
        fields = getattr(read, "__dict__", {})
        for name, part in getattr(value, "__dict__", {}).items():
            if not exactly(part, fields.get(name)):
                misfit.steps.append(at_key(name))
                break
        raise misfit

    def lift(self, tree: Any) -> Any:
        try:
            return self._cls.__pydantic_validator__.validate_json(dump(tree))
        except Misfit:
            raise
        except Exception as error:
            raise Misfit(f"{error}") from error
