"""The state of every session (in digests and dumps the "story state"), ended ones kept as their canonical bytes."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final, Self

import msgspec

from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.sealed import NewItems, SealedInMemory, SealedItem
from lifebus_broker.state.session_reducer import apply_receipt
from lifebus_broker.state.session_state import SessionState
from lifebus_contract import LifecycleEvent

SessionKey = tuple[str, str]
"""(adapter_id, harness_session_id)."""

SEAL_AT: Final = 1_024
"""How many ended sessions stay decoded before they are all sealed: their last receipts often follow the end."""

_ENDED: Final = LifecycleEvent.SESSION_ENDED
_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode
_DECODE: Final = msgspec.json.Decoder(SessionState).decode


class SessionTable:
    """Every session there ever was.

    Ended sessions of which nothing is open are sealed: kept as the bytes that a dump has of them, where `new_items`
    keeps them.  The others are kept decoded.  Whether a session is sealed changes no answer.
    """

    def __init__(self, new_items: NewItems = SealedInMemory) -> None:
        self.decoded: dict[SessionKey, SessionState] = {}
        self.sealed = new_items()
        # Ended sessions that are still decoded; a dict, because a set has no order of its own.
        self.to_seal: dict[SessionKey, None] = {}

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return len(self.decoded) + len(self.sealed)

    def __iter__(self) -> Iterator[SessionKey]:
        """Yield the sessions by adapter and id."""
        return merge(sorted(self.decoded), (key for key, _ in self.sealed.in_order()))

    def get(self, key: SessionKey) -> SessionState | None:
        """Return a copy of a session's state, None where there is no such session."""
        state = self.decoded.get(key)
        if state is not None:
            return state.copy()
        sealed = self.sealed.get(key)
        return None if sealed is None else _DECODE(sealed)

    def active(self) -> Iterator[SessionState]:
        """Yield the states of all sessions that are not closed, and of some that are, by adapter and id; read only."""
        for key in sorted(self.decoded):
            yield self.decoded[key]

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)()
        other.decoded = {key: state.copy() for key, state in self.decoded.items()}
        other.sealed, other.to_seal = self.sealed.copy(), dict(self.to_seal)
        return other

    def apply(self, position: int, receipt: ReceiptLike) -> Sequence[SessionKey]:
        """Apply the next receipt; one without a session changes nothing.  Return the sessions that were sealed."""
        session = receipt.harness_session_id
        if session is None:
            return ()
        key = (receipt.adapter_id, session)
        state = self.decoded.get(key) or self._open(key)
        apply_receipt(state, position, receipt)
        if receipt.event is _ENDED:
            self.to_seal[key] = None
            if len(self.to_seal) >= SEAL_AT:
                return self._seal()
        return ()

    def dump(self) -> Iterator[bytes]:
        """Yield the state of each session as canonical JSON, by adapter and id."""
        decoded = ((key, _ENCODE(self.decoded[key])) for key in sorted(self.decoded))
        for _, encoded in merge(decoded, self.sealed.in_order()):
            yield encoded

    def load(self, items: Iterable[msgspec.Raw]) -> None:
        """Add the sessions of a dump.

        Raises:
            msgspec.DecodeError: an item is not one that `dump` yields.
        """
        closed = self._load_open(items)
        while some := list(islice(closed, SEAL_AT)):
            self.sealed.put(some)

    def _load_open(self, items: Iterable[msgspec.Raw]) -> Iterator[SealedItem]:
        """Add the sessions of a dump that are not closed, and yield the others as they are sealed."""
        for item in items:
            state = _DECODE(item)
            key = (state.adapter_id, state.harness_session_id)
            if state.is_closed:
                yield key, _ENCODE(state)
            else:
                self.decoded[key] = state

    def _open(self, key: SessionKey) -> SessionState:
        """Return the state of a session that is new, or that was sealed and gets another receipt."""
        sealed = self.sealed.get(key)
        if sealed is None:
            # one text for all sessions of an adapter
            state = SessionState(adapter_id=sys.intern(key[0]), harness_session_id=key[1])
        else:
            self.sealed.drop(key)
            state = _DECODE(sealed)
            self.to_seal[key] = None
        self.decoded[key] = state
        return state

    def _seal(self) -> Sequence[SessionKey]:
        # A session that started again since is not closed, and stays.
        closed = [key for key in self.to_seal if self.decoded[key].is_closed]
        self.sealed.put([(key, _ENCODE(self.decoded.pop(key))) for key in closed])
        self.to_seal.clear()
        return closed
