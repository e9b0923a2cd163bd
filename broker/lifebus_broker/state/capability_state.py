"""The unlock state: which capabilities were reported as weaker or as back, by scope; the latest report wins.

A scope is one session of an adapter, or the adapter as a whole (its session is None).  Only the reporter's own receipt
counts: receipts of clients repeat the report, and may come much later.  The reducer needs no manifest: a caller names
the claims and gets what is weaker than them.
No clock, no randomness, no iteration order: the same receipts always give the same state (docs/ledger.md, "State").
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Self

import msgspec
from msgspec import Struct

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.telemetry_keys import is_applied_before
from lifebus_contract import CAPABILITIES, SUPPORT_STRENGTH, Degradation, LifecycleEvent, SupportState

Scope = tuple[str, str | None]
"""An adapter id, and a session id or None for all its sessions."""

Losses = Mapping[str, SupportState]
"""The present support of capabilities: as reported, or of those alone that are weaker than claimed."""

Claimed = Callable[[str, str], SupportState]
"""What an adapter claims for a capability: (adapter id, capability)."""

NO_LOSSES: Final[Losses] = {}
"""The state of a scope that lost nothing."""

MAX_SESSIONS: Final = 10_000
"""Sessions whose reports are remembered; of more, the one whose reports changed longest ago is forgotten."""

_DEGRADED: Final = LifecycleEvent.CAPABILITY_DEGRADED
_ENDED: Final = LifecycleEvent.SESSION_ENDED
_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode


class _DumpedScope(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A scope in a dump."""

    adapter_id: str
    session: str | None
    support: dict[str, SupportState]


_DECODER: Final = msgspec.json.Decoder(_DumpedScope)


def reported(receipt: ReceiptLike) -> tuple[Degradation, ...]:
    """Return the changes that a receipt records as a fact: those of the reporter, not of a client that received it."""
    if receipt.event is not _DEGRADED or EMITTER in receipt.telemetry_summary:
        return ()
    return receipt.capability_degradations


def apply_changes(support: Losses, changes: Iterable[Degradation]) -> dict[str, SupportState]:
    """Return the support after the changes; native support is never weaker than a claim, and so is left out."""
    after = dict(support)
    for change in changes:
        if change.capability not in CAPABILITIES:
            continue  # no client can require it
        after.pop(change.capability, None)
        if change.current_support is not SupportState.NATIVE:
            after[change.capability] = change.current_support
    return after


class CapabilityState:
    """The latest reported support of each capability that is not native.

    `adapters` holds that of whole adapters; `sessions` that of sessions, in the order of change, the oldest first.
    """

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self.adapters: dict[Scope, Losses] = {}
        self.sessions: dict[Scope, Losses] = {}
        self._max_sessions = max_sessions

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)(self._max_sessions)
        other.adapters, other.sessions = dict(self.adapters), dict(self.sessions)
        return other

    def apply(self, receipt: ReceiptLike) -> None:
        """Apply the next receipt; only reports and the ends of sessions change anything."""
        if receipt.event is _ENDED:
            # Such a receipt may come after the session has started again.
            if is_applied_before(receipt.telemetry_summary):
                return
            self.sessions.pop((receipt.adapter_id, receipt.harness_session_id), None)
        elif changes := reported(receipt):
            scope = (receipt.adapter_id, receipt.harness_session_id)
            known = self._known(scope)
            # Popped and set anew: the order of the dict is the order of change.
            support = apply_changes(known.pop(scope, NO_LOSSES), changes)
            if support:
                known[scope] = support
            if len(self.sessions) > self._max_sessions:
                del self.sessions[next(iter(self.sessions))]

    def losses(self, scope: Scope, claimed: Claimed) -> Losses:
        """Return the capabilities of exactly this scope that are weaker than its adapter claims."""
        return weaker(self.reported(scope), scope[0], claimed)

    def reported(self, scope: Scope) -> Losses:
        """Return the support that was last reported of exactly this scope."""
        return self._known(scope).get(scope, NO_LOSSES)

    def dump(self) -> Iterator[bytes]:
        """Yield each scope as canonical JSON: adapters by name, then sessions in the order of change."""
        for scope in (*sorted(self.adapters), *self.sessions):
            yield _ENCODE(_DumpedScope(*scope, dict(self.reported(scope))))

    def load(self, items: Iterable[msgspec.Raw]) -> None:
        """Add the scopes of a dump.

        Raises:
            msgspec.DecodeError: an item is not one that `dump` yields.
        """
        for item in items:
            one = _DECODER.decode(item)
            scope = (one.adapter_id, one.session)
            self._known(scope)[scope] = one.support

    def _known(self, scope: Scope) -> dict[Scope, Losses]:
        return self.adapters if scope[1] is None else self.sessions


def weaker(support: Losses, adapter_id: str, claimed: Claimed) -> Losses:
    """Return the entries that are weaker than the adapter claims."""
    return {
        name: now
        for name, now in support.items()
        if SUPPORT_STRENGTH[now] < SUPPORT_STRENGTH[claimed(adapter_id, name)]
    }
