"""The unlock state: which capabilities were reported as weaker or back, by scope; the latest report wins.

A scope is one session of an adapter, or with a session of None the adapter as a whole.  Only what the reporter said
counts: clients' receipts of the same report repeat it, and may come late.  No manifest is needed to fold; who asks
names the claims, and sees what is weaker than those.
No clock, no randomness, no iteration order: the same receipts always give the same state (docs/ledger.md, "State").
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Self

import msgspec
from msgspec import Struct

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.telemetry_keys import LATE
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


class _Saved(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A scope in a dump."""

    adapter_id: str
    session: str | None
    words: dict[str, SupportState]


def reported(told: ReceiptLike) -> tuple[Degradation, ...]:
    """Return the changes that a receipt records as a fact: those of the reporter, not of a client that was told."""
    if told.event is not _DEGRADED or EMITTER in told.telemetry_summary:
        return ()
    return told.capability_degradations


def apply_changes(words: Losses, changes: Iterable[Degradation]) -> dict[str, SupportState]:
    """Return what is known after the changes; native support is weaker than no claim, and so needs no word."""
    after = dict(words)
    for change in changes:
        if change.capability not in CAPABILITIES:
            continue  # nobody can ask for it
        after.pop(change.capability, None)
        if change.current_support is not SupportState.NATIVE:
            after[change.capability] = change.current_support
    return after


class CapabilityState:
    """The last word about each capability that is not known to be native.

    `adapters` holds that of adapters as a whole; `sessions` is in the order of change, the oldest first.
    """

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self.adapters: dict[Scope, Losses] = {}
        self.sessions: dict[Scope, Losses] = {}
        self._max_sessions = max_sessions

    def copy(self) -> Self:
        """Return a state of its own that says the same."""
        other = type(self)(self._max_sessions)
        other.adapters, other.sessions = dict(self.adapters), dict(self.sessions)
        return other

    def extend(self, told: ReceiptLike) -> None:
        """Take one more receipt; one that is no report and ends no session, or tells of it late, changes nothing."""
        if told.event is _ENDED:
            if LATE in told.telemetry_summary:
                return
            self.sessions.pop((told.adapter_id, told.harness_session_id), None)
        elif changes := reported(told):
            scope = (told.adapter_id, told.harness_session_id)
            known = self._known(scope)
            words = apply_changes(known.pop(scope, NO_LOSSES), changes)
            if words:
                known[scope] = words
            if len(self.sessions) > self._max_sessions:
                del self.sessions[next(iter(self.sessions))]

    def losses(self, scope: Scope, claimed: Claimed) -> Losses:
        """Return what of a scope's own capabilities is weaker than its adapter claims."""
        return weaker(self.words(scope), scope[0], claimed)

    def words(self, scope: Scope) -> Losses:
        """Return the last words about a scope's own capabilities."""
        return self._known(scope).get(scope, NO_LOSSES)

    def saved(self) -> Iterator[bytes]:
        """Yield each scope as canonical JSON: adapters by name, then sessions in the order of change."""
        for scope in (*sorted(self.adapters), *self.sessions):
            yield _ENCODE(_Saved(*scope, dict(self.words(scope))))

    def load(self, items: Iterable[msgspec.Raw]) -> None:
        """Take over the scopes of a dump.

        Raises:
            msgspec.DecodeError: an item is none of `saved`.
        """
        for item in items:
            one = _SAVED.decode(item)
            scope = (one.adapter_id, one.session)
            self._known(scope)[scope] = one.words

    def _known(self, scope: Scope) -> dict[Scope, Losses]:
        return self.adapters if scope[1] is None else self.sessions


def weaker(words: Losses, adapter_id: str, claimed: Claimed) -> Losses:
    """Return those of the words that say less than the adapter claims."""
    return {
        name: now for name, now in words.items() if SUPPORT_STRENGTH[now] < SUPPORT_STRENGTH[claimed(adapter_id, name)]
    }


_SAVED: Final = msgspec.json.Decoder(_Saved)
