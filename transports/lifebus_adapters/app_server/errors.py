"""The app-server's errors in the contract's words: failure class and retry posture.  Pure."""

from typing import Any, Final

from msgspec import Raw, Struct

from lifebus_adapters.app_server.context import decoded, identifier
from lifebus_adapters.app_server.messages import ABSENT
from lifebus_contract import FailureClass, RetryClass
from lifebus_contract.failure import tighten
from lifebus_contract.fields import FactValue

_OTHER: Final = "other"
_FORBIDDEN: Final = frozenset({401, 403})
_STATUSES: Final = range(100, 600)


class _Upstream(Struct, rename="camel"):
    http_status_code: Any = None


class _Error(Struct, rename="camel"):
    codex_error_info: Raw = ABSENT


class _FileUpstream(Struct):
    http_status_code: Any = None


class _FileError(Struct):
    codex_error_info: Raw = ABSENT


class ErrorInfo(Struct, frozen=True):
    """An error by its kind, with the HTTP status where the server named one."""

    kind: str
    http_status: int | None = None

    @classmethod
    def of(cls, error: bytes) -> "ErrorInfo":
        """Return an error's kind: a word, or the only key of an object.  Its text is never taken over."""
        info = (decoded(error, _Error) or _Error()).codex_error_info
        kind, details = _kind_of(info)
        upstream = decoded(details, _Upstream)
        return cls(identifier(kind) or _OTHER, _status(None if upstream is None else upstream.http_status_code))

    @classmethod
    def of_file(cls, error: bytes) -> "ErrorInfo":
        """Return the kind of an error as Codex writes it into its rollout: the same words in snake case."""
        info = (decoded(error, _FileError) or _FileError()).codex_error_info
        kind, details = _kind_of(info)
        upstream = decoded(details, _FileUpstream)
        first, *others = (identifier(kind) or _OTHER).split("_")
        word = first + "".join(other.capitalize() for other in others)
        return cls(word, _status(None if upstream is None else upstream.http_status_code))


def error_facts(info: ErrorInfo, *, will_retry: bool) -> dict[str, FactValue]:
    """Return an error as receipts carry it: kind, HTTP status, whether the server tries again, and both classes."""
    failure, retry = _classes(info)
    facts: dict[str, FactValue] = {
        "error": info.kind,
        "will_retry": will_retry,
        "failure_class": failure.value,
        "retry_class": tighten(failure, retry).value,
    }
    return facts if info.http_status is None else facts | {"http_status": info.http_status}


def _kind_of(info: Raw) -> tuple[str | None, Raw]:
    """Return an enum of the server: a word alone, or one key with details below it."""
    inside = decoded(info, dict[str, Raw])
    if inside is None:
        return decoded(info, str), ABSENT
    return next(iter(inside.items())) if len(inside) == 1 else (None, ABSENT)


def _status(found: Any) -> int | None:
    return found if found in _STATUSES else None


def _classes(info: ErrorInfo) -> tuple[FailureClass, RetryClass | None]:
    # Whatever the kind: only a person can log in again.
    if info.http_status in _FORBIDDEN:
        return FailureClass.OPERATOR_REQUIRED, None
    return _CLASSES.get(info.kind, (FailureClass.INTERNAL_ERROR, None))


_TRANSPORT: Final = (FailureClass.TRANSPORT_ERROR, None)
_OPERATOR: Final = (FailureClass.OPERATOR_REQUIRED, None)
_REFUSED: Final = (FailureClass.PAYLOAD_REJECTED, RetryClass.DO_NOT_RETRY)

_CLASSES: Final[dict[str, tuple[FailureClass, RetryClass | None]]] = {
    "httpConnectionFailed": _TRANSPORT,
    "responseStreamConnectionFailed": _TRANSPORT,
    "responseStreamDisconnected": _TRANSPORT,
    "responseTooManyFailedAttempts": _TRANSPORT,
    "internalServerError": _TRANSPORT,
    "serverOverloaded": _TRANSPORT,
    "flexUnavailable": _TRANSPORT,
    "policyCapacityUnavailable": _TRANSPORT,
    "rateLimitExceeded": _TRANSPORT,
    "contextWindowExceeded": (FailureClass.PAYLOAD_TOO_LARGE, None),
    "badRequest": (FailureClass.INVALID_REQUEST, None),
    "modelNotFound": (FailureClass.CAPABILITY_UNSUPPORTED, None),
    "unauthorized": _OPERATOR,
    "usageLimitExceeded": _OPERATOR,
    "sessionBudgetExceeded": _OPERATOR,
    "tooManyDenials": _OPERATOR,
    "cyberPolicy": _REFUSED,
    "misalignmentPolicyViolation": _REFUSED,
    "inferenceHookDenied": _REFUSED,
    "threadRollbackFailed": (FailureClass.STATE_CONFLICT, None),
    "activeTurnNotSteerable": (FailureClass.STATE_CONFLICT, None),
}
