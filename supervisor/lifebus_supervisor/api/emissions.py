"""The verbs `emit` and `negotiate`: what is to be recorded, and what would become of it."""

from functools import partial

from lifebus_broker.ports import AppendResult, Refusal
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.routing.negotiation import negotiate
from lifebus_contract import Negotiation
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.table import Handlers
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.emissions import DeliveredPayload, Emit, EmitAnswer, EmitResult, Negotiate


class EmissionVerbs:
    """Serves `emit` and `negotiate` on a bus."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {"emit": self._emit, "negotiate": self._negotiate}

    def _emit(self, call: Call, body: Emit) -> None:
        """Have the emissions recorded; the bus answers once they are durable."""
        # A callback and no task: under load, a task for each message costs as much as recording it.
        self._bus.submit(body.client_id, body.emissions, partial(_answer, call), plain=partial(_answer_plain, call))

    def _negotiate(self, _: Call, body: Negotiate) -> Negotiation:
        registered = self._bus.registry.require(body.adapter_id)
        overrides = self._bus.capabilities.overrides(body.adapter_id, body.session)
        return negotiate(registered, body.requirements, overrides)


def _answer(call: Call, results: list[EmissionResult]) -> None:
    # A list inside of `tuple` is faster than a generator, and this runs for every message.
    call.answer(EmitAnswer(results=tuple([_encode(result) for result in results])))


def _answer_plain(call: Call, results: list[AppendResult]) -> None:
    call.answer(EmitAnswer(results=tuple([_encode_plain(result) for result in results])))


def _encode_plain(result: AppendResult) -> EmitResult:
    """Return the wire form of what became of one receipt."""
    stored = result.stored
    if stored is None:
        return EmitResult(refusal=None if result.refusal is None else _refusal(result.refusal))
    return EmitResult(receipts=(stored.receipt,), positions=(stored.position,), replayed=result.replayed)


def _encode(result: EmissionResult) -> EmitResult:
    """Return the wire form of a result."""
    if result.refusal is not None:
        return EmitResult(refusal=_refusal(result.refusal))
    return EmitResult(
        receipts=tuple([stored.receipt for stored in result.stored]),
        positions=tuple([stored.position for stored in result.stored]),
        replayed=result.replayed,
        deliveries=tuple([DeliveredPayload(payload=payload, slot=slot) for payload, slot in result.deliveries]),
    )


def _refusal(refusal: Refusal) -> RefusalInfo:
    return RefusalInfo(
        failure_class=refusal.failure_class,
        retry_class=refusal.retry_class,
        detail=refusal.detail[:1024],
        code=refusal.code,
    )
