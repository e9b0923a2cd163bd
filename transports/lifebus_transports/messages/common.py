"""What every family of verbs uses: the empty body, and a refusal on the wire."""

from lifebus_contract import (
    FailureClass,
    LifebusError,
    RetryClass,
    error_for,
)
from lifebus_contract.fields import Document


class Nothing(Document, frozen=True, kw_only=True):
    """An empty body: `ping`, `status`, `clients`, `manifests`, `leave`."""


class RefusalInfo(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request, or one emission of a batch, was refused."""

    failure_class: FailureClass
    retry_class: RetryClass
    detail: str
    code: str | None = None
    field: str | None = None

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
        )

    def error(self) -> LifebusError:
        """Return the exception that stands for this refusal."""
        return error_for(
            self.failure_class, self.detail, retry_class=self.retry_class, field=self.field, code=self.code
        )
