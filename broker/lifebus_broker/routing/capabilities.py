"""The capabilities that are weaker now than the manifests claim, per session and per adapter."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from lifebus_broker.claims import claim_of
from lifebus_broker.routing.registry import Registry
from lifebus_broker.state.capability_state import (
    MAX_SESSIONS,
    NO_LOSSES,
    CapabilityState,
    Losses,
    apply_changes,
    reported,
    weaker,
)
from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_contract import Degradation, LifecycleEvent, SupportState

MAX_SINCE: Final = 10_000
"""Most receipts that are kept until the history before them is known; of more, the first are forgotten."""


class CapabilityTable:
    """The losses of sessions and of adapters as a whole.

    `state` is the fold over the reports.  `expected` counts the reports that are handed to the ledger and not durable
    yet.
    """

    def __init__(self, registry: Registry, max_sessions: int = MAX_SESSIONS) -> None:
        self.expected = 0
        self.state = CapabilityState(max_sessions)
        self._registry = registry
        self._since: deque[ReceiptLike] | None = None  # receipts to apply again once the history is known

    @property
    def sessions(self) -> int:
        """How many sessions reported something of their own."""
        return len(self.state.sessions)

    @property
    def may_change(self) -> bool:
        """Whether the end of a session can change anything: a session reported a loss, or its report is under way."""
        return bool(self.state.sessions) or self.expected > 0 or self._since is not None

    def apply(self, receipts: Iterable[ReceiptLike]) -> None:
        """Apply recorded receipts in position order; only reports and ends of sessions change anything."""
        for receipt in receipts:
            self.state.apply(receipt)
            if self._since is not None and (reported(receipt) or receipt.event is LifecycleEvent.SESSION_ENDED):
                self._since.append(receipt)

    def await_history(self) -> None:
        """Keep the receipts applied from now on, until `take_over` brings the history before them."""
        self._since = deque(maxlen=MAX_SINCE)

    def take_over(self, history: CapabilityState) -> None:
        """Put history before what was applied since `await_history`; it may hold some of that already."""
        # Applying a report twice changes nothing: it says how things are, not how they changed.
        self.state, since = history, self._since or ()
        self._since = None
        self.apply(since)

    def overrides(self, adapter_id: str, session: str | None = None) -> Losses:
        """Return the present support of what is weaker than claimed; a session's own loss wins over the adapter's."""
        whole = self.state.losses((adapter_id, None), self._claimed)
        own = self.state.losses((adapter_id, session), self._claimed) if session is not None else NO_LOSSES
        return {**whole, **own} if own else whole

    def preview(self, adapter_id: str, session: str | None, changes: Iterable[Degradation]) -> Losses:
        """Return what `overrides` will return once these changes of the session, or of the adapter, are recorded."""
        words = apply_changes(self.state.reported((adapter_id, session)), changes)
        own = weaker(words, adapter_id, self._claimed)
        return own if session is None else {**self.overrides(adapter_id), **own}

    def _claimed(self, adapter_id: str, capability: str) -> SupportState:
        registered = self._registry.get(adapter_id)
        return SupportState.UNAVAILABLE if registered is None else claim_of(registered.manifest, capability)
