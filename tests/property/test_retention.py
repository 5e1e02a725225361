"""Whatever is asked of a retention is carried out or refused, before anything is removed."""

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure import ConfigurationError, Retention
from perdure.errors import InvalidArgument
from perdure.logic.retention import policy_of
from perdure.model.retention import ENDED
from perdure.model.status import WorkflowState

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda parts: st.lists(parts) | st.sets(st.text()) | st.dictionaries(st.text(), parts),
    max_leaves=4,
)
STATES = st.sampled_from(WorkflowState)
SPANS = st.floats() | st.timedeltas() | st.integers()


@given(
    older_than=st.none() | SPANS | ANYTHING,
    keep=st.none() | st.integers() | ANYTHING,
    states=ANYTHING | STATES | st.lists(STATES),
    names=ANYTHING,
)
def test_a_policy_is_made_or_refused(older_than: Any, keep: Any, states: Any, names: Any) -> None:
    try:
        policy = policy_of(older_than, keep, states, names)
    except InvalidArgument:
        refused = True
    else:
        refused = False
        assert policy.older_than_ms >= 0
        assert policy.keep is None or policy.keep > 0
        assert set(policy.states) <= set(ENDED)
        assert policy.states
        assert all(isinstance(name, str) for name in policy.names)
        assert policy.wanted(5).before_ms <= 5
    try:
        Retention(older_than=older_than, keep=keep, states=states, names=names)
    except ConfigurationError:
        assert refused
    else:
        assert not refused


@given(days=st.floats(min_value=0, max_value=1e5))
def test_spans_of_either_kind_are_alike(days: float) -> None:
    span = timedelta(days=days)
    assert policy_of(span, None, None, None) == policy_of(span.total_seconds(), None, None, None)
