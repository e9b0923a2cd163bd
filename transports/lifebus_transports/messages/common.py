"""What every family of verbs uses: the empty body, and a refusal on the wire."""

from typing import Annotated, Final

from msgspec import Meta

from lifebus_contract import (
    FailureClass,
    LifebusError,
    RetryClass,
    error_for,
)
from lifebus_contract.fields import Document

MAX_COMPACTION_MS: Final = 3_600_000
"""Longest that one compaction may take; no call waits longer for its answer."""


class Nothing(Document, frozen=True, kw_only=True):
    """An empty body: `ping`, `status`, `clients`, `manifests`, `leave`."""


class RefusalInfo(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request, or one emission of a batch, was refused; `retry_after_ms` is 0 if no pause is asked for."""

    failure_class: FailureClass
    retry_class: RetryClass
    detail: str
    code: str | None = None
    field: str | None = None
    retry_after_ms: Annotated[int, Meta(ge=0)] = 0

    @classmethod
    def of(cls, fault: LifebusError) -> "RefusalInfo":
        """Return the wire form of an error."""
        return cls(
            failure_class=fault.failure_class,
            retry_class=fault.retry_class,
            # Details may quote what a peer sent, which may be long.
            detail=fault.detail[:1024],
            code=fault.code,
            field=fault.field[:256] if fault.field else None,
            retry_after_ms=fault.retry_after_ms,
        )

    def error(self) -> LifebusError:
        """Return this refusal as an exception."""
        return error_for(
            self.failure_class,
            self.detail,
            retry_class=self.retry_class,
            field=self.field,
            code=self.code,
            retry_after_ms=self.retry_after_ms,
        )
