"""What the broker knows of lost capabilities now: the fold over their reports, held for those who negotiate.

Bounded: of very many sessions with losses the one that nobody asked about longest is forgotten, and then negotiates
as its manifest says.

Above: bus, router.  Below: the fold over capabilities, registry.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from lifebus_broker.claims import claim_of
from lifebus_broker.fold.capabilities import UNHARMED, Losses, Scope, ends_session, reported, weaken
from lifebus_broker.registry import Registry
from lifebus_contract import Degradation, Receipt, SupportState

__all__ = ["MAX_SESSIONS", "CapabilityTable"]

MAX_SESSIONS: Final = 10_000
"""Sessions whose losses are remembered."""


class CapabilityTable:
    """The losses of sessions and of adapters as a whole.

    `expected` counts the reports that are handed to the ledger and not durable yet.
    """

    def __init__(self, registry: Registry, max_sessions: int = MAX_SESSIONS) -> None:
        self.expected = 0
        self._registry = registry
        self._max_sessions = max_sessions
        self._sessions: OrderedDict[Scope, Losses] = OrderedDict()
        self._adapters: dict[Scope, Losses] = {}

    @property
    def sessions(self) -> int:
        """How many sessions have losses of their own."""
        return len(self._sessions)

    @property
    def stirred(self) -> bool:
        """Whether the end of a session may matter: some session has losses, or soon has."""
        return bool(self._sessions) or self.expected > 0

    def learn(self, receipts: Iterable[Receipt]) -> None:
        """Take recorded receipts in position order; those that are no report and end no session change nothing.

        At boot: the ledger's `capability.degraded` and `session.ended` receipts.
        """
        for receipt in receipts:
            if ends_session(receipt):
                self._sessions.pop((receipt.adapter_id, receipt.harness_session_id), None)
            elif changes := reported(receipt):
                self._change((receipt.adapter_id, receipt.harness_session_id), changes)

    def overrides(self, adapter_id: str, session: str | None = None) -> Losses:
        """Return the present support of what is weaker than claimed; what the session lost goes before the adapter."""
        whole = self._adapters.get((adapter_id, None), UNHARMED)
        own = self._sessions.get((adapter_id, session)) if session is not None else None
        if own is None:
            return whole
        self._sessions.move_to_end((adapter_id, session))
        return {**whole, **own} if whole else own

    def foresee(self, adapter_id: str, session: str | None, changes: Iterable[Degradation]) -> Losses:
        """Return what `overrides` will say once these changes of the session, or of the adapter, are recorded."""
        if session is None:
            return weaken(self.overrides(adapter_id), changes, adapter_id, self._claimed)
        own = self._sessions.get((adapter_id, session), UNHARMED)
        return {**self.overrides(adapter_id), **weaken(own, changes, adapter_id, self._claimed)}

    def _change(self, scope: Scope, changes: Iterable[Degradation]) -> None:
        known = self._adapters if scope[1] is None else self._sessions
        losses = weaken(known.pop(scope, UNHARMED), changes, scope[0], self._claimed)
        if losses:
            known[scope] = losses
        while len(self._sessions) > self._max_sessions:
            self._sessions.popitem(last=False)

    def _claimed(self, adapter_id: str, capability: str) -> SupportState:
        registered = self._registry.get(adapter_id)
        return SupportState.UNAVAILABLE if registered is None else claim_of(registered.manifest, capability)
