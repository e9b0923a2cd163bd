"""`session_recap@1`: what a session came to, in a few lines that anybody can read, made of its state alone.

Times are those of receipts; the clock is never asked, so the same receipts give the same recap for ever.
"""

from collections.abc import Iterator
from heapq import nlargest
from typing import Any, ClassVar

import msgspec

from lifebus_broker.canonical_json import canonical
from lifebus_broker.snapshots.compactions.compaction import Purpose
from lifebus_broker.snapshots.compactions.handles import handle_of, receipt_handle, stream_of
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.session_table import SessionKey
from lifebus_broker.state.stores import Stores
from lifebus_broker.state.stream_digests import Stream


class SessionRecap:
    """The policy (`policy.Policy`): one recap a session, of all or of those `newest` that changed last.

    A recap is made of the session's stream and of the receipts that still wait for something.  None of its handles
    may be mentioned to clients: a session is no other client's business, unless somebody allows it.
    """

    policy_id: ClassVar[str] = "session_recap@1"
    purpose: ClassVar[Purpose] = Purpose.RECAP

    def __init__(self, newest: int | None = None) -> None:
        self._newest = newest

    def inputs(self, stores: Stores) -> Iterator[tuple[str, ...]]:
        """Yield the handles of each session's recap, those of the session that changed last first."""
        open_ = {(state.adapter_id, state.harness_session_id): state for state in stores.sessions.active()}
        for key, stream in self._sessions(stores):
            # Sealed sessions are closed, and nothing of them waits.
            waiting = _waiting(open_[key]) if key in open_ else ()
            yield tuple(sorted({handle_of(key, stream), *map(receipt_handle, waiting)}))

    def output(self, stores: Stores, handles: tuple[str, ...]) -> bytes:
        """Return the recap of one session.

        Raises:
            ValueError: the handles name no session of the stores.
        """
        # Only one handle of a recap names a stream; the others name receipts.
        (key,) = {key for key in map(stream_of, handles) if key is not None}
        state = stores.sessions.get((key[0], key[1] or ""))
        if state is None:
            raise ValueError(f"there is no session `{key[1]}` of {key[0]}")
        return canonical(_recap(state))

    def mentionable(self, handles: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002  as the protocol has it
        """Return nothing."""
        return ()

    def _sessions(self, stores: Stores) -> list[tuple[SessionKey, Stream]]:
        sessions = (((a, s), stream) for (a, s), stream in stores.facts.items() if s is not None)
        count = len(stores.facts) if self._newest is None else self._newest
        return nlargest(count, sessions, key=_position)


def _position(item: tuple[SessionKey, Stream]) -> int:
    return item[1].position


def _waiting(state: SessionState) -> list[int]:
    """Return the positions of the receipts that opened what is still open."""
    waiting = [frame.position for frame in state.frames] + [question.position for question in state.questions]
    return waiting + [handout.position for handout in state.handouts]


def _recap(state: SessionState) -> dict[str, Any]:
    """Return the recap as plain data."""
    return {
        "adapter_id": state.adapter_id,
        "compactions": state.compactions,
        "ended": state.ended,
        "events": {event.value: count for event, count in state.by_event.items()},
        "first_at_epoch_s": state.first_at_epoch_s,
        "first_position": state.first_position,
        "harness_session_id": state.harness_session_id,
        "last_at_epoch_s": state.last_at_epoch_s,
        "last_position": state.last_position,
        "losses": {"ever": state.ever_lost, "now": msgspec.to_builtins(state.lost), "times": state.losses},
        "payloads": {status.value: count for status, count in state.by_payload.items()},
        "peak": {
            "level": None if state.peak is None else state.peak.value,
            "used_pct": state.peak_used_pct,
            "used_tokens": state.peak_used_tokens,
        },
        "pending": {
            "frames": msgspec.to_builtins(state.frames),
            "payloads": msgspec.to_builtins(state.handouts),
            "questions": msgspec.to_builtins(state.questions),
        },
        "receipts": state.receipts,
        "starts": state.starts,
        "statuses": {status.value: count for status, count in state.by_status.items()},
    }
