"""Each of the library's own errors comes back as itself, with its fields."""

from __future__ import annotations

import inspect

import pytest

from perdure import errors
from tests.support.serialized import PORTABLE, make

SAMPLES: list[Exception] = [
    errors.VersionOwnedByAnother("v1", "other"),
    errors.QueueOwnedByAnother("q", "other"),
    errors.UnknownQueue("q", ["other"]),
    errors.UnknownVersion("v2", "app"),
    errors.UnknownVersion("v2", None),
    errors.ApplicationRunning("app", ["local/boot-1"]),
    errors.NotAuthorized("w", ["boss"], "bob"),
    errors.InvalidArgument("priority must be positive"),
    errors.UnserializableValue("result", "$.x", "it contains itself"),
    errors.ValueTooLarge("result", 11, 10),
    errors.UndecodableValue("result", None, "not JSON"),
    errors.WorkflowNotFound("w"),
    errors.WorkflowIdInUse("w"),
    errors.ConflictingWorkflow("w", "a", "b"),
    errors.QueueDeduplicated("w", "q", "d", None),
    errors.UnknownDestination("w"),
    errors.MessageIdInUse("w", "m"),
    errors.InvalidDocument("$[0]", "it has no id"),
    errors.WorkflowBusy("w"),
    errors.WorkflowNotEnded("w", "PENDING"),
    errors.NoForkPoint("w", "step 'a'"),
    errors.StreamTimeout("w", "k", 1.5),
    errors.ListingTooSlow(30.0),
    errors.AwaitedWorkflowCancelled("w"),
    errors.RecoveryLimitExceeded("w", 3),
    errors.WaitInterrupted("w"),
    errors.UnexpectedStep("w", 3, "expected a, recorded b"),
    errors.ForeignCancellation("w", "cancelled elsewhere"),
    errors.StepTimeout("s", 1.5),
    errors.StepRetriesExhausted("s", 2, [ValueError(1), errors.StepTimeout("s", 1.0)]),
    errors.RemoteError("Name", "message", 404, {"a": [1]}, "Traceback …"),
    errors.RemoteError("Name", ""),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_it_comes_back_with_its_fields(error: Exception) -> None:
    codec = make().errors
    again = codec.decode(codec.encode(error), PORTABLE)
    assert type(again) is type(error)
    assert again.args == error.args
    assert repr(again.__dict__) == repr(error.__dict__)
    assert (
        codec.encode(again).split('"traceback"')[0] == codec.encode(error).split('"traceback"')[0]
    )


def plain_errors() -> list[type[Exception]]:
    return [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.PerdureError) and cls.__init__ is Exception.__init__
    ]


@pytest.mark.parametrize("cls", plain_errors())
def test_those_without_fields_come_back_too(cls: type[Exception]) -> None:
    codec = make().errors
    again = codec.decode(codec.encode(cls("said")), PORTABLE)
    assert type(again) is cls
    assert str(again) == "said"


def test_every_class_with_fields_is_among_the_samples() -> None:
    with_fields = {
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.PerdureError) and "__init__" in vars(cls)
    }
    abstract = {errors.WorkflowError, errors.StepError}
    assert with_fields - abstract <= {type(sample) for sample in SAMPLES}
