"""What goes into the bus and what clients answer: requests, payloads, dispatches, responses.

Bodies stay opaque: nothing here looks into `body`, and nothing follows `body_ref`.
"""

from typing import Annotated, Any, Final, Self

from msgspec import Meta, ValidationError, convert, structs, to_builtins

from lifebus_contract.capability import CapabilityRequest, Degradation
from lifebus_contract.failure import FailureClass, RetryClass
from lifebus_contract.fields import (
    Count,
    Detail,
    Digest,
    Document,
    FactKey,
    FactValue,
    Identifier,
    Metadata,
    OwnerDigest,
    SchemaVersion,
    VersionOrOne,
    normalise_version,
    refuse_unprintable,
)
from lifebus_contract.vocabulary import (
    CONTRACT_VERSION,
    FRAME_EVENTS,
    FrameClass,
    IntegrationMode,
    LifecycleEvent,
    PlacementClass,
    ReceiptStatus,
    RequirementLevel,
)

_SUBCALL: Final = FrameClass.SUBCALL  # a member's name costs eight times a module's, and this is asked of every receipt
_RECEIPT_EMITTED: Final = LifecycleEvent.RECEIPT_EMITTED
_DEGRADED: Final = LifecycleEvent.CAPABILITY_DEGRADED

FACTS_KEY: Final = "lifebus"
"""The one key of a dispatched request's `metadata` that is lifebus's own (docs/contract.md 5.6)."""


class Warning(Document, frozen=True, kw_only=True, omit_defaults=True):  # noqa: A001  the contract's own word
    """A remark that changes nothing: a stable `code`, a `message`, and the capability it is about."""

    # in alphabetical order, because receipts carry it and their JSON is canonical as it is encoded
    capability: Identifier | None = None
    code: Identifier
    message: Detail


class FrameContext(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Which frame an event is about (docs/contract.md 2.2).

    A `subcall` names its parent; a `top_level` frame has none.
    """

    frame_id: Identifier  # the harness's own id of the turn, or `turn-1`, `turn-2` …
    frame_class: FrameClass
    parent_frame_id: Identifier | None = None  # only for a `subcall`

    def __post_init__(self) -> None:
        if not f"{self.frame_id}{self.parent_frame_id}".isprintable():
            refuse_unprintable(self)
        if (self.parent_frame_id is None) is (self.frame_class == _SUBCALL):
            needs = "needs" if self.frame_class == _SUBCALL else "must not have"
            raise ValueError(f"frame_context: a `{self.frame_class!s}` frame {needs} `parent_frame_id`")


class PayloadRef(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A payload named by a request without its body (docs/contract.md 2.2); the digest is of its owner's choice."""

    payload_id: Identifier
    payload_kind: Identifier
    content_digest: OwnerDigest | None = None
    byte_size: Count | None = None


class CallbackRequest(Document, frozen=True, kw_only=True, omit_defaults=True):
    """One lifecycle moment, as adapters and emitters report it (docs/contract.md 2.2).

    `frame.*` events need a frame context.  `sequence` is the harness's own number: evidence, not order
    (docs/contract.md 6.6).
    `receipt.emitted` is a notification of lifebus itself and cannot be requested.
    """

    schema_version: SchemaVersion
    event: LifecycleEvent
    event_id: Identifier  # unique for what happened
    adapter_id: Identifier  # which harness
    adapter_version: Identifier
    invocation_id: Identifier  # shared by all that one hook call reports
    integration_mode: IntegrationMode  # how it is learned
    harness_session_id: Identifier | None = None  # the harness's own id of the session
    harness_run_id: Identifier | None = None
    harness_task_id: Identifier | None = None
    frame_context: FrameContext | None = None  # needed by `frame.*` events
    capability_snapshot_ref: Identifier | None = None
    payload_refs: Annotated[tuple[PayloadRef, ...], Meta(max_length=256)] = ()  # named without their bodies
    sequence: Count | None = None  # the harness's own
    idempotency_key: Identifier | None = None  # a request that comes again with it is recorded once
    metadata: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty

    def __post_init__(self) -> None:
        if self.frame_context is None and self.event in FRAME_EVENTS:
            raise ValueError(f"frame_context: event `{self.event.value}` needs a frame context")
        # The bus announces every receipt by itself: a request for it would announce a receipt of a receipt.
        if self.event is _RECEIPT_EMITTED:
            raise ValueError("event: `receipt.emitted` is a notification of the bus and cannot be requested")
        # `isprintable` of one joined text is a single C call; None in it prints as letters and does no harm.
        identifiers = (
            f"{self.event_id}{self.adapter_id}{self.adapter_version}{self.invocation_id}{self.harness_session_id}"
            f"{self.harness_run_id}{self.harness_task_id}{self.idempotency_key}"
        )
        if not identifiers.isprintable():
            refuse_unprintable(self)


class AcceptablePlacement(Document, frozen=True, kw_only=True):
    """One placement a payload would accept, and how much it needs it."""

    placement: PlacementClass
    requirement: RequirementLevel


class PayloadEnvelope(Document, frozen=True, kw_only=True):
    """An opaque client payload (docs/contract.md 5.1).

    `body` and `body_ref` exclude each other.  `byte_size` is the length of the body in UTF-8 bytes; whether it
    is true is checked before dispatch (docs/contract.md 5.2), not here.
    """

    schema_version: VersionOrOne
    payload_id: Identifier
    client_id: Identifier  # whose it is
    payload_kind: Identifier  # in the client's own words
    format: Identifier  # a media type
    content_encoding: Identifier  # `utf8`
    byte_size: Count  # as the client says; checked before dispatch where there is a body
    acceptable_placements: Annotated[tuple[AcceptablePlacement, ...], Meta(min_length=1, max_length=16)]  # in order
    body: str | None = None  # the text itself
    body_ref: Identifier | None = None  # carried as it is, never followed
    content_digest: Digest | None = None  # SHA-256 of the body
    idempotency_key: Identifier | None = None
    expires_at_epoch_s: Count | None = None  # it is not delivered after this
    redaction: Identifier = "none"  # a word for who shows it
    metadata: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty

    def __post_init__(self) -> None:
        if self.schema_version == 1:
            normalise_version(self)
        if self.body is not None and self.body_ref is not None:
            raise ValueError("body: `body` and `body_ref` are mutually exclusive")
        if self.body is None and self.body_ref is None:
            raise ValueError("body: one of `body` and `body_ref` is needed")
        if not f"{self.payload_id}{self.client_id}{self.payload_kind}{self.idempotency_key}".isprintable():
            refuse_unprintable(self)


class DispatchFacts(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a dispatched event beside the request: its facts, and the capabilities that changed.

    The forms are those of a receipt's `telemetry_summary` and `capability_degradations` (docs/contract.md 5.6).
    `traceparent` is the span of this dispatch in the header of W3C Trace Context.
    """

    telemetry: Annotated[dict[FactKey, FactValue], Meta(max_length=32)] = {}  # noqa: RUF012  msgspec makes a new one each time
    degradations: Annotated[tuple[Degradation, ...], Meta(max_length=64)] = ()
    traceparent: Annotated[str, Meta(pattern="^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")] | None = None


_NO_FACTS: Final = DispatchFacts()


class DispatchEnvelope(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What a callback client receives: the request and its payloads (docs/contract.md 5.5).

    `request.metadata.lifebus` has what is known of the event; `telemetry`, `degradations` and `traceparent` read it.
    """

    schema_version: SchemaVersion
    request: CallbackRequest
    payloads: Annotated[tuple[PayloadEnvelope, ...], Meta(max_length=256)] = ()

    def __post_init__(self) -> None:
        if FACTS_KEY in self.request.metadata:
            self.as_emission()  # holds the facts to the rules of an emission

    @classmethod
    def of(cls, emission: "Emission", traceparent: str | None = None) -> Self:
        """Return what the clients of an emission receive; what an emitter wrote under lifebus's own key is replaced.

        `traceparent` is the span of one client's dispatch.
        """
        request = emission.request
        metadata = {name: value for name, value in request.metadata.items() if name != FACTS_KEY}
        facts: dict[str, Any] = {}
        if emission.telemetry:
            facts["telemetry"] = dict(emission.telemetry)
        if emission.degradations:  # a list, as a reader of JSON gets it
            facts["degradations"] = [to_builtins(one) for one in emission.degradations]
        if traceparent is not None:
            facts["traceparent"] = traceparent
        if facts:
            metadata[FACTS_KEY] = facts
        if metadata != request.metadata:
            request = structs.replace(request, metadata=metadata)
        return cls(schema_version=CONTRACT_VERSION, request=request, payloads=emission.payloads)

    @property
    def telemetry(self) -> dict[FactKey, FactValue]:
        """What the adapter or supervision knows of the event, for example `context_used_pct`; may be empty."""
        return self._facts.telemetry

    @property
    def degradations(self) -> tuple[Degradation, ...]:
        """Which capabilities changed, with their support before and after; only for `capability.degraded`."""
        return self._facts.degradations

    @property
    def traceparent(self) -> str | None:
        """The dispatch's own span, as W3C Trace Context writes it: what a client's spans have as their parent."""
        return self._facts.traceparent

    def as_emission(self) -> "Emission":
        """Return the emission that is dispatched by this envelope, without what it required.

        Raises:
            ValueError: lifebus's own key holds something else, or breaks a rule of emissions.
        """
        facts = self._facts
        metadata = {name: value for name, value in self.request.metadata.items() if name != FACTS_KEY}
        return Emission(
            request=structs.replace(self.request, metadata=metadata),
            payloads=self.payloads,
            telemetry=facts.telemetry,
            degradations=facts.degradations,
        )

    @property
    def _facts(self) -> DispatchFacts:
        found = self.request.metadata.get(FACTS_KEY)
        if found is None:
            return _NO_FACTS
        try:
            return convert(found, DispatchFacts)
        except ValidationError as fault:
            raise ValueError(
                f"request: `metadata.{FACTS_KEY}` is lifebus's own, and this is not its form: {fault}"
            ) from None


class CallbackResponse(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What a callback client answers (docs/contract.md 5.5).

    A `failed` status needs a failure class; other statuses must not carry one.
    """

    schema_version: SchemaVersion
    status: ReceiptStatus  # `delivered` with payloads, else `observed` or `skipped`
    client_payloads: Annotated[tuple[PayloadEnvelope, ...], Meta(max_length=256)] = ()  # to be delivered to the harness
    receipt_refs: Annotated[tuple[Identifier, ...], Meta(max_length=256)] = ()
    warnings: Annotated[tuple[Warning, ...], Meta(max_length=64)] = ()
    failure_class: FailureClass | None = None  # only with the status `failed`
    retry_class: RetryClass | None = None  # may tighten the default of the failure class
    metadata: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty

    def __post_init__(self) -> None:
        if self.status is ReceiptStatus.FAILED and self.failure_class is None:
            raise ValueError("failure_class: a `failed` response needs a failure class")
        if self.status is not ReceiptStatus.FAILED and (self.failure_class or self.retry_class):
            raise ValueError("failure_class: only a `failed` response carries failure and retry class")

    @classmethod
    def ok(cls, status: ReceiptStatus = ReceiptStatus.OBSERVED, *payloads: PayloadEnvelope) -> "CallbackResponse":
        """Return a response that reports success, with the payloads to deliver."""
        return cls(schema_version=CONTRACT_VERSION, status=status, client_payloads=payloads)

    @classmethod
    def failed(cls, failure: FailureClass, retry: RetryClass | None = None) -> "CallbackResponse":
        """Return a response that reports a failure; a retry class may only tighten the default."""
        return cls(
            schema_version=CONTRACT_VERSION, status=ReceiptStatus.FAILED, failure_class=failure, retry_class=retry
        )


class Emission(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What a caller hands to the bus: a request, the payloads to deliver with it, and what it requires.

    `warnings` and `telemetry` are what the adapter knows beside the request; they go into the receipts' `warnings`
    and `telemetry_summary`.  `degradations` belong to `capability.degraded`: which capabilities changed, losses and
    recoveries; such a report delivers and requires nothing.
    """

    request: CallbackRequest
    payloads: Annotated[tuple[PayloadEnvelope, ...], Meta(max_length=256)] = ()  # to be delivered with it
    requirements: Annotated[tuple[CapabilityRequest, ...], Meta(max_length=64)] = ()  # capabilities that it needs
    warnings: Annotated[tuple[Warning, ...], Meta(max_length=16)] = ()
    telemetry: Annotated[dict[FactKey, FactValue], Meta(max_length=32)] = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty
    degradations: Annotated[tuple[Degradation, ...], Meta(max_length=64)] = ()

    # What follows is a call for reports only: most emissions are none, and this runs for each of them.
    def __post_init__(self) -> None:
        if self.degradations:
            _check_report(self)


def _check_report(emission: Emission) -> None:
    """Refuse degradations that stand in the wrong place or change nothing.

    Raises:
        ValueError: names the faulty field.
    """
    if emission.request.event is not _DEGRADED:
        raise ValueError("degradations: only a `capability.degraded` emission names degradations")
    if emission.payloads or emission.requirements:
        raise ValueError("degradations: a report of degradations carries neither payloads nor requirements")
    for one in emission.degradations:  # a report of no change would make clients fail for nothing
        if one.current_support is one.previous_support:
            raise ValueError(f"degradations: `{one.capability[:64]}` does not change")
