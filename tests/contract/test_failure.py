"""Failure classes, their retry classes, and the exceptions that stand for them."""

from itertools import product

import pytest

from lifebus_contract import (
    DEFAULT_RETRY,
    AdapterUnavailable,
    BrokerBusy,
    CapabilityRefused,
    DeadlineExceeded,
    FailureClass,
    InternalError,
    InvalidRequest,
    LifebusError,
    RetryClass,
    StateConflict,
    TransportError,
    error_for,
    tighten,
)
from lifebus_contract.failure import RETRY_STRICTNESS

SPECIFIED = {
    "adapter_unavailable": "retry_after_reconfigure",
    "capability_unsupported": "do_not_retry",
    "capability_degraded": "retry_after_reread",
    "placement_unavailable": "retry_after_reconfigure",
    "payload_too_large": "do_not_retry",
    "payload_rejected": "retry_after_reconfigure",
    "identity_unavailable": "retry_after_reconfigure",
    "transport_error": "safe_retry",
    "timeout": "safe_retry",
    "operator_required": "retry_after_operator",
    "state_conflict": "retry_after_reread",
    "invalid_request": "do_not_retry",
    "internal_error": "retry_after_reread",
}
EXCEPTIONS = {
    "adapter_unavailable": AdapterUnavailable,
    "capability_unsupported": CapabilityRefused,
    "capability_degraded": LifebusError,
    "placement_unavailable": CapabilityRefused,
    "payload_too_large": InvalidRequest,
    "payload_rejected": LifebusError,
    "identity_unavailable": LifebusError,
    "transport_error": TransportError,
    "timeout": DeadlineExceeded,
    "operator_required": CapabilityRefused,
    "state_conflict": StateConflict,
    "invalid_request": InvalidRequest,
    "internal_error": InternalError,
}


def test_the_default_mapping_is_the_specified_one() -> None:
    assert {failure.value: retry.value for failure, retry in DEFAULT_RETRY.items()} == SPECIFIED
    assert {failure.value for failure in FailureClass} == SPECIFIED.keys()


def test_without_a_wish_the_default_stands(subtests: pytest.Subtests) -> None:
    for failure in FailureClass:
        with subtests.test(failure=failure):
            assert tighten(failure) is DEFAULT_RETRY[failure]


def test_an_asked_retry_class_tightens_and_never_loosens(subtests: pytest.Subtests) -> None:
    for failure, asked in product(FailureClass, RetryClass):
        with subtests.test(failure=failure, asked=asked):
            found, default = tighten(failure, asked), DEFAULT_RETRY[failure]
            assert RETRY_STRICTNESS[found] == max(RETRY_STRICTNESS[default], RETRY_STRICTNESS[asked])


def test_every_failure_class_has_its_exception(subtests: pytest.Subtests) -> None:
    for failure in FailureClass:
        with subtests.test(failure=failure):
            error = error_for(failure, "why", retry_class=RetryClass.SAFE_RETRY, field="$.a", code="c")
            assert type(error) is EXCEPTIONS[failure.value]
            assert (error.failure_class, error.retry_class) == (failure, DEFAULT_RETRY[failure])
            assert (error.detail, error.field, error.code) == ("why", "$.a", "c")
            assert str(error) == f"why [{failure.value}, {DEFAULT_RETRY[failure].value}]"


def test_a_busy_broker_is_a_transport_error_that_may_be_tried_again() -> None:
    error = error_for(FailureClass.TRANSPORT_ERROR, "queue full", code="busy")
    assert type(error) is BrokerBusy
    assert isinstance(error, TransportError)
    assert error.retry_class is RetryClass.SAFE_RETRY


def test_an_exception_knows_its_failure_class_by_itself() -> None:
    assert DeadlineExceeded("late").failure_class is FailureClass.TIMEOUT
    assert StateConflict("twice", retry_class=RetryClass.DO_NOT_RETRY).retry_class is RetryClass.DO_NOT_RETRY
