"""Dispatches one emission to its callback clients: in parallel, each with its own deadline, isolation and receipt.

A client's receipt is appended when that client is done, so a slow one delays nobody's.  A key that was used before
invokes no client again (docs/contract.md 6.5).  Background clients are asked once all else is durable, and nobody
waits for them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

import anyio
import structlog
from msgspec import Struct, structs

from lifebus_broker.ports import (
    AppendResult,
    DamagedReceipt,
    Evidence,
    Ledger,
    NewReceipt,
    Refusal,
    StoredReceipt,
    is_same_content,
)
from lifebus_broker.routing.background import Background, DispatchKey
from lifebus_broker.routing.clients import CallbackClient
from lifebus_broker.routing.invocation import ask
from lifebus_broker.routing.placement import NO_SLOTS_USED
from lifebus_broker.routing.receipts import as_client_emission, facts_of, request_digest, with_evidence
from lifebus_broker.routing.router import PlacedPayload, Plan, Router
from lifebus_broker.routing.slots import SlotUse
from lifebus_broker.trace_context import dispatch_span, traceparent
from lifebus_contract import (
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


class EmissionResult(Struct, frozen=True, kw_only=True):
    """What became of one emission: its stored receipts and the payloads to deliver, or a refusal.

    `parent` is the receipt that the next event of the same invocation names as its parent; `used` is the slot use
    that the next event continues.
    """

    stored: tuple[StoredReceipt, ...] = ()
    replayed: bool = False
    deliveries: tuple[PlacedPayload, ...] = ()
    refusal: Refusal | None = None
    parent: str | None = None
    used: SlotUse = NO_SLOTS_USED


class PlannedEmission(Struct, frozen=True, kw_only=True):
    """One emission to dispatch, with its plan; `deadline` is event-loop time in seconds, None for no bound.

    `parent` is the receipt before it in the same invocation; `gap` is a detected jump to record with it and to ask
    about beside it.
    """

    client_id: str
    emission: Emission
    plan: Plan
    parent: str | None = None
    gap: "PlannedEmission | None" = None
    deadline: float | None = None


class Dispatcher:
    """Carries plans out.  The same idempotency key is never under way twice."""

    def __init__(self, router: Router, ledger: Ledger, background: Background) -> None:
        self.router = router
        self.background = background
        self._ledger = ledger
        self._under_way: dict[DispatchKey, anyio.Event] = {}

    async def dispatch(self, planned: PlannedEmission) -> EmissionResult:
        """Record the plan's receipt, ask its clients, record each answer; return when all of that is durable.

        Background clients are asked then, and record their receipts by themselves.
        """
        request = planned.emission.request
        if planned.plan.refusal is not None:
            return EmissionResult(refusal=planned.plan.refusal)
        if request.idempotency_key is None:
            return await self._perform(planned, {})
        scope = (planned.client_id, request.adapter_id, request.idempotency_key)
        # A duplicate waits for the first one and then finds its receipts: its clients are not invoked twice.
        while (other := self._under_way.get(scope)) is not None:
            await other.wait()
        self._under_way[scope] = anyio.Event()
        try:
            return await self._once(planned, request.idempotency_key)
        finally:
            self._under_way.pop(scope).set()

    async def _once(self, planned: PlannedEmission, key: str) -> EmissionResult:
        """Look up whether the key was used, by whom and for the same content, then dispatch what is left to do."""
        losing = {receipt.client_id for receipt in planned.plan.loss_receipts}
        names = [planned.client_id, *(client.client_id for client in planned.plan.clients), *sorted(losing)]
        adapter_id = planned.emission.request.adapter_id
        found = await self._ledger.find([(name, adapter_id, key) for name in names])
        digest = request_digest(planned.emission)
        stored: dict[str, StoredReceipt] = {}
        for name, known in zip(names, found, strict=True):
            if known is None:
                continue
            known_digest, known_receipt = known
            if not is_same_content(known_digest, digest):
                return EmissionResult(refusal=_CONFLICT)
            if known_receipt is None:  # pruned: only its key is left
                return EmissionResult(refusal=_PRUNED)
            if isinstance(known_receipt, DamagedReceipt):  # an answer with altered bytes would be taken for the truth
                return EmissionResult(refusal=known_receipt)
            stored[name] = known_receipt
        mine = stored.get(planned.client_id)
        if mine is not None and planned.plan.receipt is None and _is_by(mine, planned.client_id):
            # Recorded while no client wanted the event: clients that came since are not asked about the past.
            return EmissionResult(stored=(mine,), replayed=True)
        return await self._perform(planned, stored)

    async def _perform(self, planned: PlannedEmission, stored: dict[str, StoredReceipt]) -> EmissionResult:
        dispatch = _Dispatch(self, planned)
        refusal = await dispatch.record_root(stored)
        if refusal is not None:
            return EmissionResult(refusal=refusal)
        asked = [(client, dispatch.subject) for client in planned.plan.clients if client.client_id not in stored]
        dispatch.replayed += [stored[one.client_id] for one in planned.plan.clients if one.client_id in stored]
        if planned.gap is not None:
            asked += [(client, _Subject(planned.gap)) for client in planned.gap.plan.clients]
        async with anyio.create_task_group() as tasks:
            for client, subject in asked:
                if not client.background:
                    tasks.start_soon(dispatch.ask_client, client, subject)
        result = dispatch.result()
        if result.refusal is None:  # background clients are asked only about what is durable
            for client, subject in asked:
                if client.background:
                    await dispatch.start_background(client, subject)
        return result

    async def append(self, receipts: Sequence[NewReceipt], *, apply: bool = False) -> list[AppendResult] | Refusal:
        """Append and wait until it is durable, or return why it was refused.

        With `apply` the table of capabilities takes in the new receipts before anybody else sees them.
        """
        finished = anyio.Event()
        results: list[AppendResult] = []

        def done(committed: list[AppendResult]) -> None:
            results.extend(committed)
            finished.set()

        refusal = self.submit(receipts, done, apply=apply)
        if refusal is not None:
            return refusal
        # Not shielded: what a disk was writing when it failed is never answered (docs/ledger.md D3).
        await finished.wait()
        return results

    def submit(
        self, receipts: Sequence[NewReceipt], done: Callable[[list[AppendResult]], None], *, apply: bool = False
    ) -> Refusal | None:
        """Append as `append` does, for whoever does not wait; `done` gets the results once they are durable."""
        table = self.router.capabilities

        def committed(results: list[AppendResult]) -> None:
            table.expected -= 1
            table.apply(recorded_receipts(receipts, results))
            done(results)

        refusal = self._ledger.append(receipts, committed if apply else done)
        if refusal is None and apply:
            table.expected += 1  # `committed` is called in a later turn of the loop at the earliest
        return refusal


class _Subject:
    """What clients are asked about: an emission, as they get it and as their receipts report it.

    `parent` is the receipt that theirs name as their parent.
    """

    def __init__(self, planned: PlannedEmission) -> None:
        self.emission = planned.emission
        self.parent = planned.parent if planned.plan.receipt is None else planned.plan.receipt.receipt_id
        self._registered = planned.plan.registered
        self._reported = as_client_emission(planned.emission, planned.client_id)

    @property
    def registered(self) -> RegisteredAdapter:
        """The adapter of the emission."""
        if self._registered is None:
            raise ValueError("a plan with clients names its adapter")
        return self._registered

    def envelope_for(self, client: CallbackClient) -> DispatchEnvelope:
        """Return what a client is asked with: each dispatch is a span of its own (docs/contract.md 5.6)."""
        request = self.emission.request
        span = dispatch_span(request, facts_of(self.emission), client.client_id)
        return DispatchEnvelope.of(self.emission, traceparent(span))

    def reported_by(self, client: CallbackClient) -> Emission:
        """Return the emission as a client's receipt reports it, with a fact where the client runs in the background."""
        return with_evidence(self._reported, {"background": True}) if client.background else self._reported


class _Dispatch:
    """One dispatch under way: its results so far, the slots that are used, and the first refusal.

    `subject` is the emission itself; a gap that was found beside it is another.
    """

    def __init__(self, dispatcher: Dispatcher, planned: PlannedEmission) -> None:
        self.replayed: list[StoredReceipt] = []
        self.subject = _Subject(planned)
        self._dispatcher = dispatcher
        self._planned = planned
        self._used = planned.plan.used
        self._results: list[AppendResult] = []
        self._deliveries: list[PlacedPayload] = list(planned.plan.deliveries)
        self._first = planned.plan.receipt.receipt_id if planned.plan.receipt is not None else None
        self._apply = bool(planned.emission.degradations) or planned.emission.request.event is _SESSION_ENDED
        self._refusal: Refusal | None = None

    async def record_root(self, stored: Mapping[str, StoredReceipt]) -> Refusal | None:
        """Record the emitter's own receipt, a detected gap and the loss receipts, in one transaction.

        `stored` holds what was recorded under the key before, by client; a replay adds no loss receipts to it.
        """
        plan = self._planned.plan
        gap = None if self._planned.gap is None else self._planned.gap.plan.receipt
        receipts = [receipt for receipt in (gap, plan.receipt) if receipt is not None]
        if self._planned.client_id not in stored:
            receipts += plan.loss_receipts
        else:
            self.replayed += [
                stored[receipt.client_id] for receipt in plan.loss_receipts if receipt.client_id in stored
            ]
        mine = stored.get(self._planned.client_id)
        if mine is not None and plan.receipt is not None:
            # A replay: clients' receipts name the stored receipt as their parent, not the one just planned.
            self._first = self.subject.parent = decode_receipt(mine.receipt).receipt_id
        if receipts:
            await self._record(*receipts)
        return self._refusal

    async def ask_client(self, client: CallbackClient, subject: _Subject) -> None:
        """Negotiate for one client, ask it, and record its receipt."""
        receipt = await self._receipt_of(client, subject)
        if subject is self.subject:
            self._first = self._first or receipt.receipt_id
        await self._record(receipt)

    async def start_background(self, client: CallbackClient, subject: _Subject) -> None:
        """Ask a background client in a task of its own; if too many are under way, its receipt says so."""
        request = subject.emission.request
        key = request.idempotency_key
        scope = None if key is None else (client.client_id, request.adapter_id, key)
        background = self._dispatcher.background
        if scope is not None and background.has(scope):
            return
        if not background.start(partial(self._run_background, client, subject), scope):
            await self._record(self._concluded(client, subject, _TOO_MANY, subject.reported_by(client)))

    async def _run_background(self, client: CallbackClient, subject: _Subject) -> None:
        """Ask a background client and record its receipt, also when the broker stops meanwhile."""
        try:
            receipt = await self._receipt_of(client, subject)
        except anyio.get_cancelled_exc_class():
            receipt = self._concluded(client, subject, _STOPPED, subject.reported_by(client))
            # Not waited for: the ledger closes after the tasks, and commits before that what it has taken.
            new = [new_receipt(receipt, self._planned.emission)]
            _log_refusal(client, self._dispatcher.submit(new, lambda _: None, apply=self._apply))
            raise
        await self._record(receipt)
        _log_refusal(client, self._refusal)

    async def _receipt_of(self, client: CallbackClient, subject: _Subject) -> Receipt:
        """Return the receipt of one client: of its answer, or of why it was not asked."""
        router, emission, client_emission = self._dispatcher.router, subject.emission, subject.reported_by(client)
        registered = subject.registered
        loss = router.loss(client, emission, registered) if emission.degradations else None
        negotiation = router.negotiation(client.requirements, registered, emission.request.harness_session_id)
        if loss is None and negotiation is not None and negotiation.failure_class is not None:
            return router.refuse_client(client, client_emission, negotiation, subject.parent)
        evidence: Evidence = {}
        answer = await ask(client, subject.envelope_for(client), self._seconds_for(client), evidence)
        client_emission = with_evidence(client_emission, evidence)
        if loss is not None:
            return router.conclude_loss(client, client_emission, loss, answer, subject.parent)
        return self._concluded(client, subject, answer, client_emission, negotiation)

    def _concluded(
        self,
        client: CallbackClient,
        subject: _Subject,
        answer: CallbackResponse | Refusal,
        client_emission: Emission,
        negotiation: Negotiation | None = None,
    ) -> Receipt:
        """Return the receipt of an answer, or of why there is none, and keep what it delivers."""
        receipt, placement = self._dispatcher.router.conclude(
            client,
            client_emission,
            subject.registered,
            negotiation,
            answer,
            parent=subject.parent,
            used=self._used,
        )
        self._used = placement.used
        self._deliveries.extend(placement.deliveries)
        return receipt

    def _seconds_for(self, client: CallbackClient) -> float:
        """Return how long a client may take: its own deadline, or what is left of the hook's if that is less."""
        # No hook waits for a background client, so only its own deadline bounds it.
        if self._planned.deadline is None or client.background:
            return client.deadline
        return max(0.0, min(client.deadline, self._planned.deadline - anyio.current_time()))

    async def _record(self, *receipts: Receipt) -> None:
        """Append receipts in one transaction; the first refusal becomes that of the whole dispatch."""
        results = await self._dispatcher.append(
            [new_receipt(receipt, self._planned.emission) for receipt in receipts], apply=self._apply
        )
        if isinstance(results, Refusal):
            self._refusal = self._refusal or results
            return
        self._results.extend(results)
        for result in results:
            self._refusal = self._refusal or result.refusal

    def result(self) -> EmissionResult:
        """Return what became of the emission."""
        if self._refusal is not None:
            # With a key the caller may just ask again; without one, what is stored already would be stored twice.
            has_key = self._planned.emission.request.idempotency_key is not None
            safe = has_key or not any(result.stored for result in self._results)
            return EmissionResult(refusal=self._refusal if safe else _as_partial(self._refusal))
        stored = [*self.replayed, *(result.stored for result in self._results if result.stored is not None)]
        return EmissionResult(
            stored=tuple(sorted(stored, key=attrgetter("position"))),
            replayed=bool(stored) and all(result.replayed for result in self._results),
            deliveries=tuple(self._deliveries),
            parent=self._first,
            used=self._used,
        )


def new_receipt(receipt: Receipt, emission: Emission) -> NewReceipt:
    """Return the receipt as the ledger takes it; the digest of what was asked goes with an idempotency key."""
    if receipt.idempotency_key is None:
        return NewReceipt(receipt)
    return NewReceipt(receipt, request_digest(emission))


def recorded_receipts(receipts: Sequence[NewReceipt], results: Sequence[AppendResult]) -> list[Receipt]:
    """Return the receipts that an append recorded; not those that were there before."""
    return [
        receipt
        for (receipt, _), result in zip(receipts, results, strict=True)
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


def _log_refusal(client: CallbackClient, refusal: Refusal | None) -> None:
    """Log that a background client's receipt was refused: no caller waits for it."""
    if refusal is not None:
        _log.warning("background_unrecorded", client_id=client.client_id, code=refusal.code)
