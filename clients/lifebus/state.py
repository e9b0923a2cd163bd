"""The state that stands for receipts which are no longer kept, as it was at one position of the ledger."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus._internal.answers import unreadable
from lifebus._internal.view import Position
from lifebus_contract import InternalError, LifebusError
from lifebus_transports.messages.state import StatePage, StateQuery, WorkingSession, WorkingState

_GONE: Final = "state_gone"
_decoder = msgspec.json.Decoder(WorkingState)


class State(Struct, frozen=True, kw_only=True):
    """The state after the receipt at `position`: the live sessions, and what was open or pending in them.

    `weaker` has the adapter, the session or None, and the last report about each capability that is not as the manifest
    claims.  `pending` has ``PENDING_ROLL`` (frames without an end), ``PENDING_CONSENT`` (questions to an operator) and
    ``PENDING_HANDOUT`` (payloads that were not placed); it is None if that is not known.  `raw` is the whole state as
    canonical JSON.  `digests` has its SHA-256 and those of the ledger's stores.
    """

    epoch: str
    position: int
    sessions: tuple[WorkingSession, ...]
    weaker: tuple[tuple[str, str | None, dict[str, str]], ...]
    pending: dict[str, Any] | None
    digests: dict[str, str]
    raw: bytes

    @property
    def cursor(self) -> Position:
        """The place to follow receipts from.  No receipt lies between it and the state."""
        return Position(self.epoch, self.position)


async def fetch_state(ask: Callable[[StateQuery], Awaitable[StatePage]]) -> State:
    """Return the oldest state that there is, page by page; from the start again if it moves on meanwhile.

    Raises:
        LifebusError: the broker refused, or no answer came.
        InternalError: what came is not what its digest says.
    """
    page = await ask(StateQuery())
    data = bytearray(page.data)
    while len(data) < page.size:
        try:
            more = await ask(StateQuery(position=page.position, offset=len(data)))
        except LifebusError as fault:
            # Retention moved on between two pages: the rest of this state is not kept any more.
            if fault.code != _GONE:
                raise
            page = await ask(StateQuery())
            data.clear()
            more = page
        # An empty page would be asked for again for ever; the digest check reports what is missing.
        if not more.data:
            break
        data += more.data
    return _state(page, bytes(data))


def _state(page: StatePage, raw: bytes) -> State:
    if sha256(raw).hexdigest() != page.digests.get("working_set_digest"):
        raise InternalError("the state is not what its digest says", code="state_damaged")
    try:
        found = _decoder.decode(raw)
    except msgspec.DecodeError as fault:  # a broker of another version, which wrote down something else
        raise unreadable(str(fault)) from None
    return State(
        epoch=page.epoch,
        position=page.position,
        sessions=found.sessions,
        weaker=found.weaker,
        pending=found.pending_state,
        digests=page.digests,
        raw=raw,
    )
