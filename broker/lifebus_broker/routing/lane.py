"""The lane: a message of plain emissions, from its values to its receipts without plans and results in between.

Most messages need receipts and nothing else.  Those that they get here are made by the same functions as all others;
only what is there for deliveries, questions and frames is left out (docs/ledger.md, "What an emission costs").
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from lifebus_broker.durations import Durations
from lifebus_broker.ports import AppendResult, Ledger, NewReceipt, Refusal
from lifebus_broker.routing.clients import CallbackClient
from lifebus_broker.routing.dispatch import new_receipt
from lifebus_broker.routing.router import Router
from lifebus_contract import Emission, LifecycleEvent, RegisteredAdapter

Recorded = Callable[[list[AppendResult]], None]
"""Called on the event loop with one result an emission, once all of them are durable or refused."""

# A member of an enum costs eight times a module's name, and every emission is looked at.
_SESSION_ENDED: Final = LifecycleEvent.SESSION_ENDED


def is_plain(emission: Emission, registered: RegisteredAdapter | Refusal, interested: Sequence[CallbackClient]) -> bool:
    """Whether an emission of a known adapter needs its receipt and nothing else.

    It carries no payload and no requirement, reports no capability, and nobody is to be asked about it.  It has no
    number of the harness's own and no frame, which are compared with earlier ones, and ends no session, which gives
    capabilities back.
    """
    request = emission.request
    return not (
        interested
        or emission.payloads
        or emission.requirements
        or emission.degradations
        or request.sequence is not None
        or request.frame_context is not None
        or request.event is _SESSION_ENDED
        or isinstance(registered, Refusal)
    )


class Lane:
    """Records messages of plain emissions; `acknowledgements` counts how long each took until it was durable."""

    def __init__(self, router: Router, ledger: Ledger, acknowledgements: Durations) -> None:
        self._router = router
        self._ledger = ledger
        self._acknowledgements = acknowledgements

    def take(self, client_id: str, emissions: Sequence[Emission], done: Recorded, *, dispatch: bool) -> bool:
        """Record prepared emissions and call `done` once; False, and nothing is done, unless all of them are plain.

        Without `dispatch` no client is to be asked, whoever is interested.
        """
        for emission in emissions:
            if not is_plain(emission, *self._router.concerned(emission.request, dispatch=dispatch)):
                return False
        receipts = self._receipts(client_id, emissions)
        refusal = self._ledger.append(receipts, partial(self._acknowledge, done, self._acknowledgements.now()))
        if refusal is not None:
            done([AppendResult(refusal=refusal)] * len(receipts))
        return True

    def _receipts(self, client_id: str, emissions: Sequence[Emission]) -> list[NewReceipt]:
        """Return the receipts; those of one invocation are chained."""
        receipts: list[NewReceipt] = []
        parents: dict[str, str] = {}
        for emission in emissions:
            invocation = emission.request.invocation_id
            receipt = self._router.observe(client_id, emission, parents.get(invocation))
            parents[invocation] = receipt.receipt_id
            receipts.append(new_receipt(receipt, emission))
        return receipts

    def _acknowledge(self, done: Recorded, started: float, results: list[AppendResult]) -> None:
        done(results)
        self._acknowledgements.add_since(started)
