"""What is examined: an adapter with its examples, and the ways in which all checks use it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_adapters.adapter import Adapter, ContextDelivery, HookCall, HookReading
from lifebus_adapters.conformance.examples import Example, call_of, ids_for
from lifebus_contract import (
    CONTRACT_VERSION,
    AcceptablePlacement,
    AdapterManifest,
    InvalidRequest,
    LifecycleEvent,
    ManifestPlacementClass,
    PayloadEnvelope,
    PlacementClass,
    RequirementLevel,
)
from lifebus_contract.payload_text import render_payloads

_EVENT_OF_SLOT: Final = {ManifestPlacementClass.PRE_SESSION: LifecycleEvent.SESSION_STARTING}


class Subject(Struct, frozen=True, kw_only=True):
    """An adapter, its example calls, and what else is known of it.

    `hooks` are the names of all hooks that the adapter knows, None where it does not say.  `records` are good
    telemetry records by source id, for the adapter's own readers.
    """

    adapter: Adapter
    examples: tuple[Example, ...]
    hooks: frozenset[str] | None = None
    records: Mapping[str, Sequence[bytes]] = {}

    @property
    def manifest(self) -> AdapterManifest:
        """The adapter's manifest."""
        return self.adapter.registered.manifest


Check = Callable[[Subject], Iterator[str]]
"""Yields what is wrong with the subject, a sentence each; nothing when all is well.  Its docstring is the rule."""


def read(subject: Subject, call: HookCall) -> HookReading:
    """Return what the adapter reads from a call.

    Raises:
        InvalidRequest: the adapter refuses it.
    """
    return subject.adapter.read(call, ids_for(call))


def read_or_refuse(subject: Subject, call: HookCall) -> HookReading | InvalidRequest:
    """Return what the adapter reads from a hostile call, or its refusal; any other exception goes up."""
    try:
        return read(subject, call)
    except InvalidRequest as refusal:
        return refusal


def readings(subject: Subject) -> Iterator[tuple[Example, HookCall, HookReading]]:
    """Yield every example with its call and what the adapter reads from it."""
    for number, example in enumerate(subject.examples):
        call = call_of(example, subject.manifest.adapter_id, number)
        yield example, call, read(subject, call)


def deliver(body: str, slot: ManifestPlacementClass, payload_id: str = "pay_1") -> ContextDelivery:
    """Return a delivery as placement decides it."""
    placement = AcceptablePlacement(placement=PlacementClass.PRE_PROMPT_FRAME, requirement=RequirementLevel.PREFERRED)
    payload = PayloadEnvelope(
        schema_version=CONTRACT_VERSION,
        payload_id=payload_id,
        client_id="conformance",
        payload_kind="instruction_frame",
        format="text",
        content_encoding="utf8",
        byte_size=len(body.encode()),
        acceptable_placements=(placement,),
        body=body,
    )
    return ContextDelivery(event=_EVENT_OF_SLOT.get(slot, LifecycleEvent.FRAME_OPENING), payload=payload, slot=slot)


def room(limit: int, slot: ManifestPlacementClass) -> int:
    """Return how many bytes of body fit into a slot of so many bytes."""
    return limit - len(render_payloads([deliver("", slot).payload]).encode())


def flat(value: object) -> str:
    """Return everything that a value of ours says, as one text."""
    return msgspec.json.encode(value).decode()
