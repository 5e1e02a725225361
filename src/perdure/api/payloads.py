"""What a workflow was given and what came of it, decoded when somebody asks."""

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from perdure.errors import UndecodableValue
from perdure.model.workflow import WorkflowRow
from perdure.serialization import Serialization

log = logging.getLogger("perdure")


class Payloads:
    """The payloads of one workflow, as far as they were read with its row.

    What cannot be read in this process, such as a pickle where pickles are not read, is the text
    that is stored, with a warning.
    """

    def __init__(self, row: WorkflowRow, serialization: Serialization) -> None:
        self._row = row
        self._serialization = serialization

    @cached_property
    def args(self) -> Any:
        """The arguments given by position, as plain values; or the stored text."""
        inputs = self._inputs
        return tuple(_part(inputs, "positionalArgs", "args", ())) if _is_call(inputs) else inputs

    @cached_property
    def kwargs(self) -> Any:
        """The arguments given by name, as plain values; or the stored text."""
        inputs = self._inputs
        return dict(_part(inputs, "namedArgs", "kwargs", {})) if _is_call(inputs) else inputs

    @cached_property
    def output(self) -> Any:
        """The result, as plain values; None if there is none; or the stored text."""
        return self._read("output", self._row.output, self._value)

    @cached_property
    def error(self) -> Any:
        """The error the workflow ended with; None if there is none; or the stored text."""
        if self._row.error is None:
            return None
        return self._read("error", self._row.error, self._serialization.errors.decode)

    @cached_property
    def _inputs(self) -> Any:
        return self._read("inputs", self._row.inputs, self._value) or {}

    def _value(self, text: str | None, label: str | None) -> Any:
        return self._serialization.value(Any, f"workflow {self._row.workflow_id!r}").decode(
            text, label
        )

    def _read(
        self, what: str, text: str | None, decode: Callable[[str | None, str | None], Any]
    ) -> Any:
        try:
            return decode(text, self._row.serialization)
        except UndecodableValue as error:
            log.warning("the %s of workflow %s: %s", what, self._row.workflow_id, error)
            return text


def _is_call(inputs: object) -> bool:
    return isinstance(inputs, Mapping)


def _part(inputs: Mapping[str, Any], name: str, pickled: str, default: Any) -> Any:
    return inputs.get(name) or inputs.get(pickled) or default
