"""Renewals that a broker left unfinished when it ended: gone on with under the same ids, and their receipts written."""

from collections.abc import Awaitable, Callable, Sequence

import anyio.to_thread
import structlog
from msgspec import structs

from lifebus_broker.ports import Evidence
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.invocation import explain
from lifebus_broker.routing.receipts import with_evidence
from lifebus_contract import CallbackRequest, CallbackResponse, Emission, FailureClass, LifebusError, TransportError
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.renewal.choosing import ChosenContinuation
from lifebus_supervisor.renewal.flow import PREPARED, USED, RenewalFlow
from lifebus_supervisor.renewal.records import Continuation, ContinuationState

_log = structlog.get_logger("lifebus.renewal")


async def left_by(flow: RenewalFlow) -> tuple[str, ...]:
    """Return the payload ids of what the flow's store holds of its profile; ask before the flow is given anything new.

    A store that cannot be read is told of in the log, and nothing of it is gone on with.
    """
    try:
        records, strange = await anyio.to_thread.run_sync(flow.store.records)
    except (LifebusError, OSError) as fault:
        _log.error("renewals_unreadable", fault=type(fault).__name__)
        return ()
    if strange:
        _log.warning("renewals_strange", files=strange[:16])
    return tuple(one.payload_id for one in records if one.profile == flow.settings.profile)


async def recover(flow: RenewalFlow, bus: EventBus, left: Sequence[str]) -> None:
    """Go on with what was left, one after the other.

    What cannot be gone on with stays as it is; the next start of its session, or of the broker, tries again.
    """
    for payload_id in left:
        try:
            record = await _find(flow, payload_id)
            if record is None:
                continue
            async with flow.lock_for(record.cwd, record.session):
                record = await _find(flow, payload_id)  # its session may have gone on with it meanwhile
                if record is not None:
                    await _Recovery(flow, bus, record).go_on()
        except Exception as fault:  # noqa: BLE001  one record must not cost everybody's bus
            _log.error("renewal_left", payload_id=payload_id, fault=type(fault).__name__)


async def _find(flow: RenewalFlow, payload_id: str) -> Continuation | None:
    records, _ = await anyio.to_thread.run_sync(flow.store.records)
    return next((one for one in records if one.payload_id == payload_id), None)


class _Recovery:
    """One record that was left."""

    def __init__(self, flow: RenewalFlow, bus: EventBus, record: Continuation) -> None:
        self._flow = flow
        self._bus = bus
        self._record = record

    async def go_on(self) -> None:
        """Do what is still to be done for the record, and write the receipts that are missing."""
        record = self._record
        if record.prepared_at is not None:
            if record.state is ContinuationState.PREPARING:
                await self._try(PREPARED, record.prepared_at, self._prepare)
                return
            await self._record_once(PREPARED, record.prepared_at, self._flow.told(record, PREPARED), {})
        if record.claimed_at is not None:
            await self._finish(record, record.claimed_at)
        await anyio.to_thread.run_sync(self._flow.store.mark_told, record)

    async def _finish(self, record: Continuation, moment: CallbackRequest) -> None:
        if record.state is ContinuationState.CLAIMED:
            await self._try(USED, moment, self._hand_over)
        elif record.state is ContinuationState.CONSUMED:
            await self._record_once(USED, moment, self._flow.told(record, USED), {})
        elif record.state is ContinuationState.REJECTED:
            await self._record_once(USED, moment, self._flow.lost(record), {})

    async def _prepare(self, moment: CallbackRequest, evidence: Evidence) -> CallbackResponse:
        return await self._flow.prepare(self._record, moment, evidence)

    async def _hand_over(self, moment: CallbackRequest, evidence: Evidence) -> CallbackResponse:
        found = await anyio.to_thread.run_sync(self._flow.store.claim_again, self._record)
        if isinstance(found, ChosenContinuation):
            return await self._flow.hand_over(found.record, moment, evidence)
        raise self._flow.lost(self._record)

    async def _try(
        self,
        kind: str,
        moment: CallbackRequest,
        work: Callable[[CallbackRequest, Evidence], Awaitable[CallbackResponse]],
    ) -> None:
        evidence: Evidence = {"after_restart": True}
        try:
            answer: CallbackResponse | LifebusError = await work(moment, evidence)
        except LifebusError as fault:
            answer = fault
        await self._record_answer(kind, moment, answer, evidence)

    async def _record_once(
        self, kind: str, moment: CallbackRequest, answer: CallbackResponse | LifebusError, evidence: Evidence
    ) -> None:
        """Write the receipt unless the client has one of this moment that names the payload."""
        scope = (self._record.client_id, moment.adapter_id, str(moment.idempotency_key))
        (found,) = await self._bus.ledger.find([scope])
        stored = None if found is None else found[1]
        if stored is not None:
            receipt = decode_receipt(stored.receipt)
            named = {one.payload_id for one in receipt.payload_receipts}
            # a failure names the payload in its facts, a success in a payload receipt
            if self._record.payload_id in {*named, receipt.telemetry_summary.get("client_payload_id")}:
                return
        await self._record_answer(kind, moment, answer, evidence)

    async def _record_answer(
        self, kind: str, moment: CallbackRequest, answer: CallbackResponse | LifebusError, evidence: Evidence
    ) -> None:
        """Write a receipt in the client's name, in the invocation of the hook; the same one is written once."""
        record = self._record
        ending = f":failed{record.handed_over}" if isinstance(answer, LifebusError) else ""
        request = structs.replace(moment, idempotency_key=f"{record.payload_id}:{kind}{ending}")
        emission = with_evidence(Emission(request=request), {**evidence, "payload_id": record.payload_id})
        if isinstance(answer, LifebusError):
            outcome = await self._bus.record_failure(record.client_id, emission, explain(answer, 0))
        else:
            whole = structs.replace(emission, payloads=answer.client_payloads)
            (outcome,) = await self._bus.emit(record.client_id, [whole], dispatch=False)
        refusal = outcome.refusal
        if refusal is not None and refusal.failure_class is not FailureClass.STATE_CONFLICT:  # that one is there
            raise TransportError(refusal.detail, code=refusal.code)
