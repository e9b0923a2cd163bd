"""Renewals that a broker left unfinished when it ended: resumed under the same ids, and their receipts written."""

from collections.abc import Awaitable, Callable, Sequence

import anyio.to_thread
import structlog
from msgspec import structs

from lifebus_broker.ports import Evidence, StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.invocation import explain
from lifebus_broker.routing.receipts import with_evidence
from lifebus_contract import CallbackRequest, CallbackResponse, Emission, FailureClass, LifebusError, TransportError
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.renewal.choosing import ChosenContinuation
from lifebus_supervisor.renewal.flow import PREPARED, USED, RenewalFlow
from lifebus_supervisor.renewal.records import Continuation, ContinuationState

_log = structlog.get_logger("lifebus.renewal")


async def unfinished_ids(flow: RenewalFlow) -> tuple[str, ...]:
    """Return the payload ids of the flow's profile in its store; call it before the flow takes anything new.

    A store that cannot be read is logged, and nothing of it is resumed.
    """
    try:
        records, unreadable = await anyio.to_thread.run_sync(flow.store.records)
    except (LifebusError, OSError) as fault:
        _log.error("renewals_unreadable", fault=type(fault).__name__)
        return ()
    if unreadable:
        _log.warning("renewals_strange", files=unreadable[:16])
    return tuple(one.payload_id for one in records if one.profile == flow.settings.profile)


async def recover(flow: RenewalFlow, bus: EventBus, unfinished: Sequence[str]) -> None:
    """Resume unfinished renewals, one after the other.

    What cannot be resumed stays as it is; the next start of its session, or of the broker, tries again.
    """
    for payload_id in unfinished:
        try:
            record = await _find(flow, payload_id)
            if record is None:
                continue
            async with flow.lock_for(record.cwd, record.session):
                record = await _find(flow, payload_id)  # its session may have resumed it meanwhile
                if record is not None:
                    await _Recovery(flow, bus, record).resume()
        except Exception as fault:  # noqa: BLE001  one record must not cost everybody's bus
            _log.error("renewal_left", payload_id=payload_id, fault=type(fault).__name__)


async def _find(flow: RenewalFlow, payload_id: str) -> Continuation | None:
    records, _ = await anyio.to_thread.run_sync(flow.store.records)
    return next((one for one in records if one.payload_id == payload_id), None)


class _Recovery:
    """One unfinished record."""

    def __init__(self, flow: RenewalFlow, bus: EventBus, record: Continuation) -> None:
        self._flow = flow
        self._bus = bus
        self._record = record

    async def resume(self) -> None:
        """Do what is still to be done for the record, and write the receipts that are missing."""
        record = self._record
        if record.prepared_at is not None:
            if record.state is ContinuationState.PREPARING:
                await self._try(PREPARED, record.prepared_at, self._prepare)
                return
            await self._record_once(PREPARED, record.prepared_at, self._flow.response_for(record, PREPARED), {})
        if record.claimed_at is not None:
            await self._finish(record, record.claimed_at)
        await anyio.to_thread.run_sync(self._flow.store.mark_recorded, record)

    async def _finish(self, record: Continuation, request: CallbackRequest) -> None:
        if record.state is ContinuationState.CLAIMED:
            await self._try(USED, request, self._hand_over)
        elif record.state is ContinuationState.CONSUMED:
            await self._record_once(USED, request, self._flow.response_for(record, USED), {})
        elif record.state is ContinuationState.REJECTED:
            await self._record_once(USED, request, self._flow.failure_of(record), {})

    async def _prepare(self, request: CallbackRequest, evidence: Evidence) -> CallbackResponse:
        return await self._flow.prepare(self._record, request, evidence)

    async def _hand_over(self, request: CallbackRequest, evidence: Evidence) -> CallbackResponse:
        found = await anyio.to_thread.run_sync(self._flow.store.claim_again, self._record)
        if isinstance(found, ChosenContinuation):
            return await self._flow.hand_over(found.record, request, evidence)
        raise self._flow.failure_of(self._record)

    async def _try(
        self,
        kind: str,
        request: CallbackRequest,
        work: Callable[[CallbackRequest, Evidence], Awaitable[CallbackResponse]],
    ) -> None:
        evidence: Evidence = {"after_restart": True}
        try:
            answer: CallbackResponse | LifebusError = await work(request, evidence)
        except LifebusError as fault:
            answer = fault
        await self._record_answer(kind, request, answer, evidence)

    async def _record_once(
        self, kind: str, request: CallbackRequest, answer: CallbackResponse | LifebusError, evidence: Evidence
    ) -> None:
        """Write the receipt unless the client has one for this request that names the payload."""
        scope = (self._record.client_id, request.adapter_id, str(request.idempotency_key))
        (found,) = await self._bus.ledger.find([scope])
        stored = None if found is None else found[1]
        # where it is damaged, the ledger refuses the key by itself
        if isinstance(stored, StoredReceipt):
            receipt = decode_receipt(stored.receipt)
            named = {one.payload_id for one in receipt.payload_receipts}
            # a failure names the payload in its facts, a success in a payload receipt
            if self._record.payload_id in {*named, receipt.telemetry_summary.get("client_payload_id")}:
                return
        await self._record_answer(kind, request, answer, evidence)

    async def _record_answer(
        self, kind: str, request: CallbackRequest, answer: CallbackResponse | LifebusError, evidence: Evidence
    ) -> None:
        """Write a receipt in the client's name, in the invocation of the hook; the same one is written once."""
        record = self._record
        ending = f":failed{record.handed_over}" if isinstance(answer, LifebusError) else ""
        replayed = structs.replace(request, idempotency_key=f"{record.payload_id}:{kind}{ending}")
        emission = with_evidence(Emission(request=replayed), {**evidence, "payload_id": record.payload_id})
        if isinstance(answer, LifebusError):
            outcome = await self._bus.record_failure(record.client_id, emission, explain(answer, 0))
        else:
            whole = structs.replace(emission, payloads=answer.client_payloads)
            (outcome,) = await self._bus.emit(record.client_id, [whole], dispatch=False)
        refusal = outcome.refusal
        # a conflict means that an earlier recovery has written the receipt
        if refusal is not None and refusal.failure_class is not FailureClass.STATE_CONFLICT:
            raise TransportError(refusal.detail, code=refusal.code)
