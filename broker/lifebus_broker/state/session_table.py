"""The story state: the stories of all sessions, those that are over kept as their canonical bytes."""

from collections.abc import Iterable, Iterator
from typing import Final, Self

import msgspec

from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.session_reducer import apply_receipt
from lifebus_broker.state.session_state import SessionState
from lifebus_contract import LifecycleEvent

SessionKey = tuple[str, str]
"""(adapter_id, harness_session_id)."""

SEAL_AT: Final = 1_024
"""How many sessions that are over are kept at hand before they are all sealed; their late words cost less so."""

_ENDED: Final = LifecycleEvent.SESSION_ENDED
_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode
_DECODE: Final = msgspec.json.Decoder(SessionState).decode


class SessionTable:
    """Every session there ever was.

    Those that are over, and of which nothing is open, are `sealed`: kept as the bytes that a dump has of them.  The
    others are `awake`; `over` names those that will be sealed next.  Whether one is sealed changes no answer.
    """

    def __init__(self) -> None:
        self.awake: dict[SessionKey, SessionState] = {}
        self.sealed: dict[SessionKey, bytes] = {}
        self.over: dict[SessionKey, None] = {}

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return len(self.awake) + len(self.sealed)

    def __iter__(self) -> Iterator[SessionKey]:
        """Yield the sessions by adapter and id."""
        return iter(sorted([*self.awake, *self.sealed]))

    def get(self, key: SessionKey) -> SessionState | None:
        """Return a copy of a session's story, None where there is no such session."""
        story = self.awake.get(key)
        if story is not None:
            return story.copy()
        sealed = self.sealed.get(key)
        return None if sealed is None else _DECODE(sealed)

    def at_hand(self) -> Iterator[SessionState]:
        """Yield the stories of all sessions that are not over and some that are, by adapter and id; only to read."""
        for key in sorted(self.awake):
            yield self.awake[key]

    def copy(self) -> Self:
        """Return a state of its own that says the same."""
        other = type(self)()
        other.awake = {key: story.copy() for key, story in self.awake.items()}
        other.sealed, other.over = dict(self.sealed), dict(self.over)
        return other

    def extend(self, position: int, told: ReceiptLike) -> None:
        """Take one more receipt; one without a session belongs to no story."""
        session = told.harness_session_id
        if session is None:
            return
        key = (told.adapter_id, session)
        story = self.awake.get(key) or self._take_up(key)
        apply_receipt(story, position, told)
        if told.event is _ENDED:
            self.over[key] = None
            if len(self.over) >= SEAL_AT:
                self._seal()

    def saved(self) -> Iterator[bytes]:
        """Yield each story as canonical JSON, by adapter and id."""
        for key in self:
            story = self.awake.get(key)
            yield self.sealed[key] if story is None else _ENCODE(story)

    def load(self, items: Iterable[msgspec.Raw]) -> None:
        """Take over the stories of a dump.

        Raises:
            msgspec.DecodeError: an item is none of `saved`.
        """
        for item in items:
            story = _DECODE(item)
            key = (story.adapter_id, story.harness_session_id)
            if story.is_closed:
                self.sealed[key] = _ENCODE(story)
            else:
                self.awake[key] = story

    def _take_up(self, key: SessionKey) -> SessionState:
        """Return the story of a session that is new, or that was sealed and goes on."""
        sealed = self.sealed.pop(key, None)
        if sealed is None:
            story = SessionState(adapter_id=key[0], harness_session_id=key[1])
        else:
            story = _DECODE(sealed)
            self.over[key] = None
        self.awake[key] = story
        return story

    def _seal(self) -> None:
        for key in self.over:
            if self.awake[key].is_closed:
                self.sealed[key] = _ENCODE(self.awake.pop(key))
        self.over.clear()
