"""The one exception tree of lifebus.

LifebusError                 failure class, retry class, what to do next
├── InvalidRequest           a document or call breaks the contract; names field and rule
├── AdapterUnavailable       unknown adapter, other version, mode not claimed
├── CapabilityRefused        a required capability cannot be had
├── StateConflict            an idempotency key came back with other content
├── TransportError           the broker cannot be reached, or hung up
│   └── BrokerBusy           the broker refused for now: a queue is full or the disk is
├── DeadlineExceeded         no answer within the deadline; the outcome is unknown
└── InternalError            lifebus itself failed
"""

from typing import Final

from lifebus_contract.codes import CODES, ErrorCode
from lifebus_contract.failure import FailureClass, RetryClass, tighten

_UNKNOWN: Final = ErrorCode(FailureClass.INTERNAL_ERROR, "a code of somebody else's, or none")


class LifebusError(Exception):
    """Base of every error a caller may see; carries a failure class and a retry class.

    `retry_after_ms` is the pause that a busy broker asks for, or 0.  `field` is the path of the first faulty field
    (``$.adapter_id``), if there is one.  `code` is a short stable word that names the rule (`duplicate_id_conflict`);
    `codes.CODES` lists them.  Without a failure class of its own, a plain `LifebusError` has that of its code.
    """

    default_failure: FailureClass | None = None

    def __init__(
        self,
        detail: str,
        *,
        failure_class: FailureClass | None = None,
        retry_class: RetryClass | None = None,
        field: str | None = None,
        code: str | None = None,
        retry_after_ms: int = 0,
    ) -> None:
        super().__init__(detail)
        self.retry_after_ms = retry_after_ms
        self.detail = detail
        # A class that is given came from a wire or a caller who knows better than the table.
        known = _UNKNOWN if code is None or failure_class is not None else CODES.get(code, _UNKNOWN)
        self.failure_class = failure_class or self.default_failure or known.failure_class
        self.retry_class = tighten(self.failure_class, retry_class or known.asked_retry)
        self.field = field
        self.code = code

    def __str__(self) -> str:
        return f"{self.detail} [{self.failure_class.value}, {self.retry_class.value}]"


class InvalidRequest(LifebusError):
    """A document or call breaks the contract; `field` says where, and `code` names the rule."""

    default_failure = FailureClass.INVALID_REQUEST


class AdapterUnavailable(LifebusError):
    """The adapter is unknown, has another version, or does not claim the integration mode."""

    default_failure = FailureClass.ADAPTER_UNAVAILABLE


class CapabilityRefused(LifebusError):
    """A required capability or placement cannot be had; nothing was dispatched."""

    default_failure = FailureClass.CAPABILITY_UNSUPPORTED


class StateConflict(LifebusError):
    """An idempotency key was used before with other content."""

    default_failure = FailureClass.STATE_CONFLICT


class TransportError(LifebusError):
    """The broker cannot be reached, or the connection ended."""

    default_failure = FailureClass.TRANSPORT_ERROR


class BrokerBusy(TransportError):
    """The broker refused for now, before anything was stored; try again with the same key."""


class DeadlineExceeded(LifebusError):
    """No answer came in time; the outcome is unknown, so repeat with the same idempotency key."""

    default_failure = FailureClass.TIMEOUT


class InternalError(LifebusError):
    """lifebus itself failed; the detail says where."""

    default_failure = FailureClass.INTERNAL_ERROR


_BY_FAILURE: dict[FailureClass, type[LifebusError]] = {
    FailureClass.INVALID_REQUEST: InvalidRequest,
    FailureClass.PAYLOAD_TOO_LARGE: InvalidRequest,
    FailureClass.ADAPTER_UNAVAILABLE: AdapterUnavailable,
    FailureClass.CAPABILITY_UNSUPPORTED: CapabilityRefused,
    FailureClass.OPERATOR_REQUIRED: CapabilityRefused,
    FailureClass.PLACEMENT_UNAVAILABLE: CapabilityRefused,
    FailureClass.STATE_CONFLICT: StateConflict,
    FailureClass.TRANSPORT_ERROR: TransportError,
    FailureClass.TIMEOUT: DeadlineExceeded,
    FailureClass.INTERNAL_ERROR: InternalError,
}


def error_for(
    failure_class: FailureClass,
    detail: str,
    *,
    retry_class: RetryClass | None = None,
    field: str | None = None,
    code: str | None = None,
    retry_after_ms: int = 0,
) -> LifebusError:
    """Return the exception that stands for a failure reported over a wire."""
    # A full disk is no `BrokerBusy`: it does not go away by itself, though it refuses before storing, too.
    kind = BrokerBusy if code == "busy" else _BY_FAILURE.get(failure_class, LifebusError)
    return kind(
        detail,
        failure_class=failure_class,
        retry_class=retry_class,
        field=field,
        code=code,
        retry_after_ms=retry_after_ms,
    )
