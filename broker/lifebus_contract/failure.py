"""Failure classes, retry classes, and the rule that an adapter may tighten a retry class and never loosen it."""

from enum import StrEnum
from typing import Final


class FailureClass(StrEnum):
    """What went wrong, in lifecycle terms (docs/contract.md 7.1)."""

    ADAPTER_UNAVAILABLE = "adapter_unavailable"
    CAPABILITY_UNSUPPORTED = "capability_unsupported"
    CAPABILITY_DEGRADED = "capability_degraded"
    PLACEMENT_UNAVAILABLE = "placement_unavailable"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    PAYLOAD_REJECTED = "payload_rejected"
    IDENTITY_UNAVAILABLE = "identity_unavailable"
    TRANSPORT_ERROR = "transport_error"
    TIMEOUT = "timeout"
    OPERATOR_REQUIRED = "operator_required"
    STATE_CONFLICT = "state_conflict"
    INVALID_REQUEST = "invalid_request"
    INTERNAL_ERROR = "internal_error"


class RetryClass(StrEnum):
    """What a caller may do next (docs/contract.md 7.2)."""

    SAFE_RETRY = "safe_retry"
    RETRY_AFTER_REREAD = "retry_after_reread"
    RETRY_AFTER_RECONFIGURE = "retry_after_reconfigure"
    RETRY_AFTER_OPERATOR = "retry_after_operator"
    DO_NOT_RETRY = "do_not_retry"


DEFAULT_RETRY: Final = {
    FailureClass.ADAPTER_UNAVAILABLE: RetryClass.RETRY_AFTER_RECONFIGURE,
    FailureClass.CAPABILITY_UNSUPPORTED: RetryClass.DO_NOT_RETRY,
    FailureClass.CAPABILITY_DEGRADED: RetryClass.RETRY_AFTER_REREAD,
    FailureClass.PLACEMENT_UNAVAILABLE: RetryClass.RETRY_AFTER_RECONFIGURE,
    FailureClass.PAYLOAD_TOO_LARGE: RetryClass.DO_NOT_RETRY,
    FailureClass.PAYLOAD_REJECTED: RetryClass.RETRY_AFTER_RECONFIGURE,
    FailureClass.IDENTITY_UNAVAILABLE: RetryClass.RETRY_AFTER_RECONFIGURE,
    FailureClass.TRANSPORT_ERROR: RetryClass.SAFE_RETRY,
    FailureClass.TIMEOUT: RetryClass.SAFE_RETRY,
    FailureClass.OPERATOR_REQUIRED: RetryClass.RETRY_AFTER_OPERATOR,
    FailureClass.STATE_CONFLICT: RetryClass.RETRY_AFTER_REREAD,
    FailureClass.INVALID_REQUEST: RetryClass.DO_NOT_RETRY,
    FailureClass.INTERNAL_ERROR: RetryClass.RETRY_AFTER_REREAD,
}
"""The default retry class of each failure class (docs/contract.md 7.3)."""

# Numbers and not the order of the enum: the wire's spelling must not decide what is stricter.
RETRY_STRICTNESS: Final = {
    RetryClass.SAFE_RETRY: 0,
    RetryClass.RETRY_AFTER_REREAD: 1,
    RetryClass.RETRY_AFTER_RECONFIGURE: 2,
    RetryClass.RETRY_AFTER_OPERATOR: 3,
    RetryClass.DO_NOT_RETRY: 4,
}
"""How much each retry class asks of the caller before the next try; a larger number is tighter."""


def tighten(failure: FailureClass, asked: RetryClass | None = None) -> RetryClass:
    """Return the retry class of `failure`, tightened to `asked` where that is stricter.

    A looser one is ignored: adapters and clients may tighten the default posture,
    never loosen it (docs/contract.md 7.4).
    """
    default = DEFAULT_RETRY[failure]
    if asked is None or RETRY_STRICTNESS[asked] <= RETRY_STRICTNESS[default]:
        return default
    return asked
