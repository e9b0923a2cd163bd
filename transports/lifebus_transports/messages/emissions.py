"""The bodies of the verbs that record: `emit`, and `negotiate` beside it."""

from typing import Annotated

from msgspec import Meta

from lifebus_contract import (
    CapabilityRequest,
    Emission,
    ManifestPlacementClass,
    PayloadEnvelope,
)
from lifebus_contract.fields import Document, Identifier
from lifebus_transports.messages.common import RefusalInfo


class Emit(Document, frozen=True, kw_only=True):
    """`emit`: one to 1,024 emissions of one client, recorded in order."""

    client_id: Identifier
    emissions: Annotated[tuple[Emission, ...], Meta(min_length=1, max_length=1024)]


class DeliveredPayload(Document, frozen=True, kw_only=True):
    """A payload that the emitter is to deliver, and the slot it was placed in."""

    payload: PayloadEnvelope
    slot: ManifestPlacementClass


class EmitResult(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one emission: receipts as canonical JSON bytes with their positions, or a refusal."""

    receipts: tuple[bytes, ...] = ()
    positions: tuple[int, ...] = ()
    replayed: bool = False
    deliveries: tuple[DeliveredPayload, ...] = ()
    # In its place and not instead of the answer: the other emissions of the message are recorded.
    refusal: RefusalInfo | None = None


class EmitAnswer(Document, frozen=True, kw_only=True):
    """The answer to `emit`: one result for each emission, in order."""

    results: tuple[EmitResult, ...]


class Negotiate(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`negotiate`: what would an adapter give for these requirements, in a session as it is now.

    Without `session` only what the adapter as a whole has lost is taken into account.
    """

    adapter_id: Identifier
    requirements: Annotated[tuple[CapabilityRequest, ...], Meta(max_length=64)]
    session: Identifier | None = None
