"""Dispatches one emission to its callback clients: in parallel, each with its own deadline, isolation and receipt.

A client's receipt is appended when that client is done, so a slow one delays nobody's.  A key that was used before
invokes no client again (docs/contract.md 6.5).  Background clients are asked once all else is durable, and nobody
waits for them.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import anyio
import structlog
from msgspec import Struct, structs

from lifebus_broker.ports import AppendResult, Evidence, Ledger, NewReceipt, Refusal, StoredReceipt, is_same_content
from lifebus_broker.routing.background import Background, DispatchKey
from lifebus_broker.routing.clients import CallbackClient
from lifebus_broker.routing.invocation import ask
from lifebus_broker.routing.placement import NO_SLOTS_USED
from lifebus_broker.routing.receipts import as_client_emission, request_digest, with_evidence
from lifebus_broker.routing.router import PlacedPayload, Plan, Router
from lifebus_broker.routing.slots import SlotUse
from lifebus_contract import (
    CONTRACT_VERSION,
    CallbackResponse,
    DispatchEnvelope,
    Emission,
    LifecycleEvent,
    Negotiation,
    Receipt,
    RegisteredAdapter,
)
from lifebus_contract.codec import decode_receipt

_log = structlog.get_logger("lifebus.dispatch")
_SESSION_ENDED: Final = LifecycleEvent.SESSION_ENDED


class EmissionOutcome(Struct, frozen=True, kw_only=True):
    """What became of one emission: stored receipts and payloads to deliver, or a refusal.

    `parent` is the receipt that the next event of the same invocation names as its parent; `used` its slot use.
    """

    stored: tuple[StoredReceipt, ...] = ()
    replayed: bool = False
    deliveries: tuple[PlacedPayload, ...] = ()
    refusal: Refusal | None = None
    parent: str | None = None
    used: SlotUse = NO_SLOTS_USED


class PlannedEmission(Struct, frozen=True, kw_only=True):
    """One emission to dispatch: whose, what was planned, and until when (in event-loop time, None for no bound).

    `parent` is the receipt before it in the same invocation; `gap` a detected jump to record with it.
    """

    client_id: str
    emission: Emission
    plan: Plan
    parent: str | None = None
    gap: Receipt | None = None
    deadline: float | None = None


class Dispatcher:
    """Performs plans.  The same key is never under way twice."""

    def __init__(self, router: Router, ledger: Ledger, background: Background) -> None:
        self.router = router
        self.background = background
        self._ledger = ledger
        self._under_way: dict[DispatchKey, anyio.Event] = {}

    async def dispatch(self, planned: PlannedEmission) -> EmissionOutcome:
        """Record the plan's receipt, ask its clients, record each answer; return when all of that is durable.

        Background clients are asked then, and record their receipts by themselves.
        """
        request = planned.emission.request
        if planned.plan.refusal is not None:
            return EmissionOutcome(refusal=planned.plan.refusal)
        if request.idempotency_key is None:
            return await self._perform(planned, {})
        scope = (planned.client_id, request.adapter_id, request.idempotency_key)
        while (other := self._under_way.get(scope)) is not None:
            await other.wait()
        self._under_way[scope] = anyio.Event()
        try:
            return await self._once(planned, request.idempotency_key)
        finally:
            self._under_way.pop(scope).set()

    async def _once(self, planned: PlannedEmission, key: str) -> EmissionOutcome:
        """Look first whether the key was used: by whom, and for the same content."""
        told = {receipt.client_id for receipt in planned.plan.loss_receipts}
        names = [planned.client_id, *(client.client_id for client in planned.plan.clients), *sorted(told)]
        adapter_id = planned.emission.request.adapter_id
        found = await self._ledger.find([(name, adapter_id, key) for name in names])
        digest = request_digest(planned.emission)
        stored: dict[str, StoredReceipt] = {}
        for name, entry in zip(names, found, strict=True):
            if entry is None:
                continue
            if not is_same_content(entry[0], digest):
                return EmissionOutcome(refusal=_CONFLICT)
            if entry[1] is None:
                return EmissionOutcome(refusal=_PRUNED)
            stored[name] = entry[1]
        mine = stored.get(planned.client_id)
        if mine is not None and planned.plan.receipt is None and _is_by(mine, planned.client_id):
            return EmissionOutcome(stored=(mine,), replayed=True)  # recorded when nobody wanted it
        return await self._perform(planned, stored)

    async def _perform(self, planned: PlannedEmission, stored: dict[str, StoredReceipt]) -> EmissionOutcome:
        dispatch = _Dispatch(self, planned)
        refusal = await dispatch.record_root(stored)
        if refusal is not None:
            return EmissionOutcome(refusal=refusal)
        late: list[CallbackClient] = []
        async with anyio.create_task_group() as tasks:
            for client in planned.plan.clients:
                if client.client_id in stored:
                    dispatch.replayed.append(stored[client.client_id])
                elif client.background:
                    late.append(client)
                else:
                    tasks.start_soon(dispatch.ask_client, client)
        outcome = dispatch.outcome()
        if outcome.refusal is None:
            for client in late:
                await dispatch.start_background(client)
        return outcome

    async def append(self, receipts: Sequence[NewReceipt], *, apply: bool = False) -> list[AppendResult] | Refusal:
        """Append and wait until it is durable, or return why it was refused.

        With `apply` the table of capabilities hears of the new receipts before anybody else does.
        """
        finished = anyio.Event()
        results: list[AppendResult] = []
        table = self.router.capabilities

        def done(appended: list[AppendResult]) -> None:
            results.extend(appended)
            if apply:
                table.expected -= 1
                table.apply(recorded_receipts(receipts, results))
            finished.set()

        refusal = self._ledger.append(receipts, done)
        if refusal is not None:
            return refusal
        if apply:
            table.expected += 1  # `done` is called in a later turn of the loop at the earliest
        with anyio.CancelScope(shield=True):  # handed over: it will be durable whether or not anybody waits
            await finished.wait()
        return results


class _Dispatch:
    """One dispatch under way: what was recorded so far, and which slots are used."""

    def __init__(self, dispatcher: Dispatcher, planned: PlannedEmission) -> None:
        self.replayed: list[StoredReceipt] = []
        self._dispatcher = dispatcher
        self._planned = planned
        self._used = planned.plan.used
        self._results: list[AppendResult] = []
        self._deliveries: list[PlacedPayload] = list(planned.plan.deliveries)
        self._first = planned.plan.receipt.receipt_id if planned.plan.receipt is not None else None
        self._parent = self._first or planned.parent
        self._client_emission = as_client_emission(planned.emission, planned.client_id)
        self._apply = bool(planned.emission.degradations) or planned.emission.request.event is _SESSION_ENDED
        self._refusal: Refusal | None = None

    async def record_root(self, stored: Mapping[str, StoredReceipt]) -> Refusal | None:
        """Record the emitter's own receipt, a detected gap, and what clients are told unasked, in one transaction.

        `stored` holds what was recorded under the key before; who was told nothing then is told nothing now.
        """
        plan = self._planned.plan
        receipts = [receipt for receipt in (self._planned.gap, plan.receipt) if receipt is not None]
        if self._planned.client_id not in stored:
            receipts += plan.loss_receipts
        else:
            self.replayed += [stored[one.client_id] for one in plan.loss_receipts if one.client_id in stored]
        mine = stored.get(self._planned.client_id)
        if mine is not None and plan.receipt is not None:
            self._first = self._parent = decode_receipt(mine.receipt).receipt_id  # the one that is there already
        if receipts:
            await self._record(*receipts)
        return self._refusal

    async def ask_client(self, client: CallbackClient) -> None:
        """Negotiate for one client, ask it, and record its receipt."""
        receipt = await self._answer_of(client)
        self._first = self._first or receipt.receipt_id
        await self._record(receipt)

    async def start_background(self, client: CallbackClient) -> None:
        """Have a background client asked while nobody waits; if there are too many, that is its receipt."""
        key = self._planned.emission.request.idempotency_key
        scope = None if key is None else (client.client_id, self._planned.emission.request.adapter_id, key)
        background = self._dispatcher.background
        if scope is not None and background.has(scope):
            return
        if not background.start(partial(self._run_background, client), scope):
            await self._record(self._concluded(client, _TOO_MANY, self._emission_for(client)))

    async def _run_background(self, client: CallbackClient) -> None:
        """Ask a background client and record its receipt; one that the broker's end cuts off gets one, too."""
        try:
            receipt = await self._answer_of(client)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._record(self._concluded(client, _STOPPED, self._emission_for(client)))
            raise
        await self._record(receipt)
        if self._refusal is not None:  # nobody waits who could be told
            _log.warning("background_unrecorded", client_id=client.client_id, code=self._refusal.code)

    async def _answer_of(self, client: CallbackClient) -> Receipt:
        router, emission, told = self._dispatcher.router, self._planned.emission, self._emission_for(client)
        registered = self._registered
        loss = router.loss(client, emission, registered) if emission.degradations else None
        negotiation = router.negotiation(client.requirements, registered, emission.request.harness_session_id)
        if loss is None and negotiation is not None and negotiation.failure_class is not None:
            return router.refuse_client(client, told, negotiation, self._parent)
        envelope = DispatchEnvelope(
            schema_version=CONTRACT_VERSION, request=emission.request, payloads=emission.payloads
        )
        evidence: Evidence = {}
        answer = await ask(client, envelope, self._seconds_for(client), evidence)
        told = with_evidence(told, evidence)
        if loss is not None:
            return router.conclude_loss(client, told, loss, answer, self._parent)
        return self._concluded(client, answer, told, negotiation)

    def _concluded(
        self,
        client: CallbackClient,
        answer: CallbackResponse | Refusal,
        told: Emission,
        negotiation: Negotiation | None = None,
    ) -> Receipt:
        """Return the receipt of an answer, or of why there is none, and keep what it delivers."""
        receipt, placement = self._dispatcher.router.conclude(
            client,
            told,
            self._registered,
            negotiation,
            answer,
            parent=self._parent,
            used=self._used,
        )
        self._used = placement.used
        self._deliveries.extend(placement.deliveries)
        return receipt

    def _emission_for(self, client: CallbackClient) -> Emission:
        """Return the emission as a client's receipt tells it; that of a background client says that it comes late."""
        return (
            with_evidence(self._client_emission, {"background": True}) if client.background else self._client_emission
        )

    @property
    def _registered(self) -> RegisteredAdapter:
        registered = self._planned.plan.registered
        if registered is None:
            raise ValueError("a plan with clients names its adapter")
        return registered

    def _seconds_for(self, client: CallbackClient) -> float:
        """Return how long a client may take: its own deadline, or what is left of the hook's if that is less."""
        if self._planned.deadline is None or client.background:
            return client.deadline
        return max(0.0, min(client.deadline, self._planned.deadline - anyio.current_time()))

    async def _record(self, *receipts: Receipt) -> None:
        """Append receipts in one transaction; the first refusal is the dispatch's."""
        new = [new_receipt(receipt, self._planned.emission) for receipt in receipts]
        results = await self._dispatcher.append(new, apply=self._apply)
        if isinstance(results, Refusal):
            self._refusal = self._refusal or results
            return
        self._results.extend(results)
        for result in results:
            self._refusal = self._refusal or result.refusal

    def outcome(self) -> EmissionOutcome:
        """Return what became of the emission."""
        if self._refusal is not None:
            # With a key the caller may just ask again; without one, what is stored already would be stored twice.
            has_key = self._planned.emission.request.idempotency_key is not None
            safe = has_key or not any(result.stored for result in self._results)
            return EmissionOutcome(refusal=self._refusal if safe else _as_partial(self._refusal))
        stored = [*self.replayed, *(result.stored for result in self._results if result.stored is not None)]
        return EmissionOutcome(
            stored=tuple(sorted(stored, key=lambda one: one.position)),
            replayed=bool(stored) and all(result.replayed for result in self._results),
            deliveries=tuple(self._deliveries),
            parent=self._first,
            used=self._used,
        )


def new_receipt(receipt: Receipt, emission: Emission) -> NewReceipt:
    """Return the receipt as the ledger takes it; the digest of what was asked goes with an idempotency key."""
    if receipt.idempotency_key is None:
        return NewReceipt(receipt=receipt)
    return NewReceipt(receipt=receipt, digest=request_digest(emission))


def recorded_receipts(receipts: Sequence[NewReceipt], results: Sequence[AppendResult]) -> list[Receipt]:
    """Return the receipts that an append recorded; not those that were there before."""
    return [
        new.receipt
        for new, result in zip(receipts, results, strict=True)
        if result.stored is not None and not result.replayed
    ]


def _is_by(stored: StoredReceipt, client_id: str) -> bool:
    """Whether a stored receipt is a client's own, and not another's filed under its key as well."""
    return decode_receipt(stored.receipt).client_id == client_id


def _as_partial(refusal: Refusal) -> Refusal:
    """Return a refusal that does not promise that nothing was stored: without a key, do not just ask again."""
    return structs.replace(refusal, code="partly_recorded", detail=f"recorded in part, then: {refusal.detail}")


_CONFLICT = Refusal.of("duplicate_id_conflict", "the idempotency key was used before with other content")
_PRUNED = Refusal.of("history_pruned", "the key was used before; its receipt is pruned from the ledger")
_TOO_MANY = Refusal.of("busy", "too many background dispatches are under way")
_STOPPED = Refusal.of("stopped", "the broker stopped before the client was done")
