"""Decides what becomes of an emission before any client is asked: refused, recorded or dispatched.  Sync, no I/O.

validate (done by the types) -> resolve adapter -> negotiate -> place payloads -> draft the receipt
(docs/architecture.md, "The flow").
"""

from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from lifebus_broker.claims import remark_on
from lifebus_broker.ports import Refusal
from lifebus_broker.privacy import Privacy
from lifebus_broker.routing.capabilities import CapabilityTable
from lifebus_broker.routing.clients import CallbackClient, ClientTable
from lifebus_broker.routing.negotiation import negotiate
from lifebus_broker.routing.payload_validation import check_payloads
from lifebus_broker.routing.placement import NO_SLOTS_USED, PlacementResult, place, place_in_background
from lifebus_broker.routing.receipts import (
    ReceiptHeader,
    as_client_emission,
    failed,
    from_response,
    gap_in,
    observed,
    observed_alone,
    warning_of,
)
from lifebus_broker.routing.registry import Registry, alias_warning
from lifebus_broker.routing.reports import fact_of, loss_of
from lifebus_broker.routing.slots import Slot, SlotUse
from lifebus_broker.state.capability_state import Losses
from lifebus_broker.transitions import losses_of
from lifebus_contract import (
    AdapterUnavailable,
    CallbackRequest,
    CallbackResponse,
    CapabilityRequest,
    Emission,
    FailureClass,
    IdSource,
    Negotiation,
    PayloadEnvelope,
    Receipt,
    RegisteredAdapter,
)
from lifebus_contract.ids import EVENT, RECEIPT

PlacedPayload = tuple[PayloadEnvelope, Slot]
"""A payload that is to be delivered, and the slot it goes to."""


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be done with one emission.

    With a `refusal` nothing is recorded.  `receipt` is recorded in the emitter's name, then `clients` are asked, those
    in the background last.
    `deliveries` and `used` come from the emitter's own payloads.  `loss_receipts` are receipts of clients that lost
    what they require and are not asked; they are recorded together with `receipt`.
    """

    refusal: Refusal | None = None
    receipt: Receipt | None = None
    registered: RegisteredAdapter | None = None
    clients: Sequence[CallbackClient] = ()
    loss_receipts: tuple[Receipt, ...] = ()
    deliveries: tuple[PlacedPayload, ...] = ()
    used: SlotUse = NO_SLOTS_USED


class Router:
    """Makes plans and receipts.  Ids and time are passed in; nothing is remembered between calls.

    `capabilities` says what is weaker now than the manifests claim.  `privacy` is what may be recorded of
    where sessions work; whoever composes the broker sets it.
    """

    def __init__(
        self,
        registry: Registry,
        clients: ClientTable,
        ids: IdSource,
        clock: Callable[[], float],
        capabilities: CapabilityTable,
    ) -> None:
        self.registry = registry
        self.clients = clients
        self.capabilities = capabilities
        self.privacy = Privacy()
        self._ids = ids
        self._clock = clock

    def prepare(self, emission: Emission) -> Emission:
        """Return the emission with its adapter's id for an alias, what there is to remark, and what may be recorded.

        Most emissions come back as they are.  A remark changes nothing else: what a key stands for leaves it out.
        """
        # Before all else: what may not be recorded is in no digest, no dispatch and no receipt.
        if emission.telemetry:
            emission = self.privacy.apply(emission)
        request = emission.request
        registered = self.registry.get(request.adapter_id)
        if registered is None:  # refused by `plan`
            return emission
        remark = remark_on(registered.manifest, request)
        if remark is not None:
            emission = structs.replace(emission, warnings=(*emission.warnings, remark))
        adapter_id = registered.manifest.adapter_id
        if request.adapter_id == adapter_id:
            return emission
        remark = alias_warning(request.adapter_id, adapter_id)
        request = structs.replace(request, adapter_id=adapter_id)
        return structs.replace(emission, request=request, warnings=(*emission.warnings, remark))

    def plan(
        self,
        client_id: str,
        emission: Emission,
        parent: str | None = None,
        used: SlotUse = NO_SLOTS_USED,
        *,
        dispatch: bool = True,
    ) -> Plan:
        """Return what is to be done; `parent` is the receipt before it in the same invocation.

        Without `dispatch` no client is asked, whoever is interested in the event.
        """
        registered, clients = self.concerned(emission.request, dispatch=dispatch)
        if isinstance(registered, Refusal):  # not recorded: no receipt can name an adapter that is not there
            return Plan(refusal=registered)
        # Three kinds of emission, distinguished by what they carry; the last and simplest is by far the most frequent.
        if emission.payloads or emission.requirements:
            return self._plan_delivery(emission, registered, clients, self._header(client_id, parent), used)
        if emission.degradations:
            return self._plan_report(emission, registered, clients, self._header(client_id, parent), used)
        # A client that answers writes the receipt of a plain event; the emitter has one of its own only without any.
        if clients and any(not client.background for client in clients):
            return Plan(registered=registered, clients=clients, used=used)
        receipt = self.observe(client_id, emission, parent)
        return Plan(receipt=receipt, registered=registered, clients=clients, used=used)

    def concerned(
        self, request: CallbackRequest, *, dispatch: bool
    ) -> tuple[RegisteredAdapter | Refusal, Sequence[CallbackClient]]:
        """Return the adapter of a request, or why there is none, and which clients are asked about it."""
        registered = self.registry.resolve(request.adapter_id, request.adapter_version, request.integration_mode)
        return registered, self.clients.interested_in(request.event, request.adapter_id) if dispatch else ()

    def observe(self, client_id: str, emission: Emission, parent: str | None) -> Receipt:
        """Return the receipt of an emission that requires nothing and carries no payloads."""
        return observed_alone(emission, self._ids.make(RECEIPT), int(self._clock()), client_id, parent)

    def negotiation(
        self, requirements: Sequence[CapabilityRequest], registered: RegisteredAdapter, session: str | None
    ) -> Negotiation | None:
        """Return what the requirements get in a session as it is now; None where nothing is required."""
        if not requirements:
            return None
        overrides = self.capabilities.overrides(registered.manifest.adapter_id, session)
        return negotiate(registered, requirements, overrides)

    def loss(self, client: CallbackClient, emission: Emission, registered: RegisteredAdapter) -> Negotiation | None:
        """Return the negotiation that fails for a client because of what a report says is lost, None if none fails."""
        request = emission.request
        return _loss(
            client, emission, registered, self.capabilities.overrides(request.adapter_id, request.harness_session_id)
        )

    def conclude_loss(
        self,
        client: CallbackClient,
        emission: Emission,
        negotiation: Negotiation,
        answer: CallbackResponse | Refusal,
        parent: str | None,
    ) -> Receipt:
        """Return the receipt of a client that was asked about its own loss: it failed, whatever it answered."""
        remarks = answer.warnings if isinstance(answer, CallbackResponse) else (warning_of(answer),)
        header = self._header(client.client_id, parent)
        return loss_of(emission=emission, negotiation=negotiation, remarks=remarks, **header)

    def conclude(
        self,
        client: CallbackClient,
        emission: Emission,
        registered: RegisteredAdapter,
        negotiation: Negotiation | None,
        answer: CallbackResponse | Refusal,
        *,
        parent: str | None,
        used: SlotUse,
    ) -> tuple[Receipt, PlacementResult]:
        """Return the receipt of a client that was asked, and what becomes of the payloads it sent."""
        header = self._header(client.client_id, parent)
        nothing = PlacementResult(used=used)
        if isinstance(answer, Refusal):
            return failed(emission=emission, refusal=answer, negotiation=negotiation, **header), nothing
        # The client's payloads are as untrusted as an emitter's.
        refusal = check_payloads(answer.client_payloads, header["at_epoch_s"])
        if refusal is not None:
            return failed(emission=emission, refusal=refusal, negotiation=negotiation, **header), nothing
        sent = () if answer.failure_class is not None else answer.client_payloads  # a failure delivers nothing
        if client.background:  # the hook has been answered already, so nothing can be placed any more
            placement = place_in_background(sent, used)
        else:
            placement = place(sent, emission.request, registered, used)
        if placement.refusal is not None:
            receipt = failed(
                emission=emission, refusal=placement.refusal, negotiation=negotiation, placement=placement, **header
            )
            return receipt, placement
        receipt = from_response(
            emission=emission, response=answer, negotiation=negotiation, placement=placement, **header
        )
        return receipt, placement

    def refuse_client(
        self, client: CallbackClient, emission: Emission, negotiation: Negotiation, parent: str | None
    ) -> Receipt:
        """Return the receipt of a client that is not asked, because a capability it requires cannot be had."""
        header = self._header(client.client_id, parent)
        return failed(emission=emission, refusal=_unmet(negotiation), negotiation=negotiation, **header)

    def plan_failure(self, client_id: str, emission: Emission, refusal: Refusal) -> Plan:
        """Return the plan that only records that an emission could not be read or handled."""
        request = emission.request
        registered = self.registry.resolve(request.adapter_id, request.adapter_version, request.integration_mode)
        if isinstance(registered, Refusal):
            return Plan(refusal=registered)
        return Plan(receipt=failed(emission=emission, refusal=refusal, **self._header(client_id, None)))

    def transient(self, client_id: str, emission: Emission) -> Receipt:
        """Return the receipt of an emission that is published but not stored (docs/contract.md 2.6).

        Raises:
            AdapterUnavailable: there is no such adapter, or it is not what the request names.
        """
        request = emission.request
        registered = self.registry.resolve(request.adapter_id, request.adapter_version, request.integration_mode)
        if isinstance(registered, Refusal):
            raise AdapterUnavailable(registered.detail, code=registered.code)
        return self.observe(client_id, emission, None)

    def plan_gap(
        self, client_id: str, emission: Emission, missing: tuple[int, int], *, dispatch: bool = True
    ) -> tuple[Emission, Plan]:
        """Return a jump in the harness's own sequence as an emission, and who is asked about it.

        Its receipt is the reporter's whoever is asked: lifebus itself found the gap (docs/contract.md 6.6).
        """
        gap = gap_in(emission, self._ids.make(EVENT), missing)
        adapter_id = gap.request.adapter_id
        receipt = observed(emission=gap, **self._header(client_id, None))
        clients = self.clients.interested_in(gap.request.event, adapter_id) if dispatch else ()
        return gap, Plan(receipt=receipt, registered=self.registry.get(adapter_id), clients=clients)

    def _plan_delivery(
        self,
        emission: Emission,
        registered: RegisteredAdapter,
        clients: Sequence[CallbackClient],
        header: ReceiptHeader,
        used: SlotUse,
    ) -> Plan:
        """Plan an emission that requires something or carries payloads; a refusal is a recorded fact."""
        negotiation = self.negotiation(emission.requirements, registered, emission.request.harness_session_id)
        if negotiation is not None and negotiation.failure_class is not None:
            receipt = failed(emission=emission, refusal=_unmet(negotiation), negotiation=negotiation, **header)
            return Plan(receipt=receipt, used=used)
        # Negotiated first: what cannot be had at all is the better answer than a fault in a payload.
        refusal = check_payloads(emission.payloads, header["at_epoch_s"], header["client_id"])
        if refusal is not None:
            return Plan(receipt=failed(emission=emission, refusal=refusal, **header), used=used)
        placed = place(emission.payloads, emission.request, registered, used)
        if placed.refusal is not None:
            receipt = failed(emission=emission, refusal=placed.refusal, placement=placed, **header)
            return Plan(receipt=receipt, used=used)
        return Plan(
            receipt=observed(emission=emission, negotiation=negotiation, placement=placed, **header),
            registered=registered,
            clients=clients,
            deliveries=placed.deliveries,
            used=placed.used,
        )

    def _plan_report(
        self,
        emission: Emission,
        registered: RegisteredAdapter,
        clients: Sequence[CallbackClient],
        header: ReceiptHeader,
        used: SlotUse,
    ) -> Plan:
        """Plan a report of degradations: the fact itself, and one receipt for each client that lost what it requires.

        Clients that are interested in the event get theirs after they were asked; the reporter's own is the fact.
        """
        fact = fact_of(emission=emission, **header)
        client_emission = as_client_emission(emission, header["client_id"])
        request = emission.request
        # The report is not recorded yet, so the table of capabilities does not know it.
        after = self.capabilities.preview(request.adapter_id, request.harness_session_id, emission.degradations)
        loss_receipts: list[Receipt] = []
        for client in self.clients.of(request.adapter_id):
            if client in clients or client.client_id == header["client_id"]:  # these get a receipt anyway
                continue
            negotiation = _loss(client, emission, registered, after)
            if negotiation is not None:
                own = self._header(client.client_id, fact.receipt_id)
                loss_receipts.append(loss_of(emission=client_emission, negotiation=negotiation, **own))
        return Plan(receipt=fact, registered=registered, clients=clients, loss_receipts=tuple(loss_receipts), used=used)

    def _header(self, client_id: str, parent: str | None) -> ReceiptHeader:
        return {
            "receipt_id": self._ids.make(RECEIPT),
            "at_epoch_s": int(self._clock()),
            "client_id": client_id,
            "parent_receipt_id": parent,
        }


def _loss(
    client: CallbackClient, emission: Emission, registered: RegisteredAdapter, losses: Losses
) -> Negotiation | None:
    """Negotiate what a client requires of the capabilities that the emission reports as lost; None if it can go on."""
    lost = {change.capability for change in losses_of(emission.degradations)}
    # Only what this report took away: what the client lacked before was refused then.
    concerned = [requirement for requirement in client.required if requirement.capability in lost]
    # A report of a new manifest knows what the old one claimed.
    previous = {change.capability: change.previous_support for change in emission.degradations}
    found = negotiate(registered, concerned, losses, previous=previous)
    return found if found.failure_class is FailureClass.CAPABILITY_DEGRADED else None


def _unmet(negotiation: Negotiation) -> Refusal:
    """Return the refusal for a required capability that cannot be had, or not any more."""
    reasons = [found.reason for found in negotiation.outcomes if found.outcome is negotiation.outcome]
    failure = negotiation.failure_class
    if failure is None:
        raise ValueError("a negotiation that did not fail has nothing to refuse")
    code = "required_capability_lost" if failure is FailureClass.CAPABILITY_DEGRADED else "requirement_unmet"
    return Refusal(failure_class=failure, detail="; ".join(reasons)[:1024], code=code)
