"""Decide what one transaction will hold: number the receipts, link them, find duplicates among them.

Nothing here changes what is committed: a draft keeps the changed tips to itself until its transaction has
succeeded, so a rollback only drops the draft and takes the numbers off the receipts again.

Above: sqlite_writer.  Below: fold, ports, contract.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from lifebus_broker.fold import INITIAL, SessionState, advance
from lifebus_broker.ledger.refusals import PRUNED, conflicting, unrecordable
from lifebus_broker.ports import Appended, Entry, Row
from lifebus_contract import Receipt, encode_json

__all__ = [
    "COLUMNS",
    "NO_LINK",
    "Draft",
    "Known",
    "StreamKey",
    "Tip",
    "frames_text",
    "key_of",
    "link_after",
    "state_from",
]

StreamKey = tuple[str, str | None]
"""(adapter_id, harness_session_id): one chain of receipts; those without a session share one an adapter."""

NO_LINK: Final = bytes(32)
"""What the first receipt of a stream is linked to."""

COLUMNS: Final = 14
"""How many values a drafted row has in `Draft.values`, in the order of the view `intake`."""


class Tip(Struct, frozen=True):
    """The newest receipt of a stream: what the next one continues; position 0 in a stream without any."""

    stream: int
    position: int = 0
    sequence: int = 0
    link: bytes = NO_LINK
    state: SessionState = INITIAL


class Known(Struct, frozen=True):
    """What an idempotency key stands for; a row of None means that its receipt was pruned."""

    digest: bytes
    row: Row | None


def key_of(client_id: str, adapter_id: str, idempotency_key: str) -> str:
    """Return the text under which a key is stored: natural order, so that ascending keys land side by side.

    The ids of client and adapter hold no control characters, so the separator is unambiguous.
    """
    return f"{client_id}\x1f{adapter_id}\x1f{idempotency_key}"


def link_after(previous: bytes, receipt: bytes) -> bytes:
    """Return the link of a row: sha256(previous ‖ row) (design 4.4)."""
    return sha256(previous + receipt).digest()


def frames_text(state: SessionState) -> str | None:
    """Return the open frames as a JSON list, None when there are none."""
    return msgspec.json.encode(state.open_frames).decode() if state.open_frames else None


def state_from(ended: int, frames: str | None, harness_sequence: int | None) -> SessionState:
    """Return the state that a row's columns hold."""
    open_frames = () if frames is None else msgspec.json.decode(frames, type=tuple[str, ...])
    return SessionState(bool(ended), open_frames, harness_sequence)


class Draft:
    """The content of one transaction, built append by append.

    `tip_of` returns the committed tip of a stream; `known` holds what keys of this transaction turned out to
    stand for already.  `values` is the flat list of bindings of the rows, `streams` that of new streams and
    `seconds` that of newly begun seconds.
    """

    def __init__(
        self,
        tip_of: Callable[[StreamKey], Tip],
        *,
        head: int,
        newest_second: int,
        known: Mapping[str, Known],
    ) -> None:
        self.head, self.newest_second = head, newest_second
        self.values: list[object] = []
        self.streams: list[object] = []
        self.seconds: list[int] = []
        self.rows: list[Row] = []
        self.tips: dict[StreamKey, Tip] = {}
        self.bytes = 0
        self._tip_of = tip_of
        self._known = dict(known)
        self._numbered: list[Receipt] = []

    def add(self, entries: Sequence[Entry]) -> list[Appended]:
        """Draft one append; the answers hold once the transaction is committed."""
        results: list[Appended] = []
        for entry in entries:
            receipt, digest = entry.receipt, entry.digest
            raw = receipt.idempotency_key
            if raw is None or digest is None:
                results.append(self._place(receipt, None, None))
                continue
            key = key_of(receipt.client_id, receipt.adapter_id, raw)
            known = self._known.get(key)
            if known is None:
                result = self._place(receipt, key, digest)
                if result.row is not None:
                    self._known[key] = Known(digest, result.row)
            elif known.digest != digest:
                result = conflicting(raw)
            else:
                result = PRUNED if known.row is None else Appended(row=known.row, replayed=True)
            results.append(result)
        return results

    def withdraw(self) -> None:
        """Take the sequences off the receipts again: the transaction did not happen."""
        for receipt in self._numbered:
            force_setattr(receipt, "sequence", None)

    def _place(self, receipt: Receipt, key: str | None, digest: bytes | None) -> Appended:
        """Give the receipt its position, sequence and link, and note what has to be stored."""
        adapter, session = place = (receipt.adapter_id, receipt.harness_session_id)
        tip = self.tips.get(place) or self._tip_of(place)
        position, sequence, text = self.head + 1, None, b""
        if session is not None:
            sequence = tip.sequence + 1
            force_setattr(receipt, "sequence", sequence)
            self._numbered.append(receipt)
        try:
            text = encode_json(receipt)
        except (UnicodeError, ValueError) as fault:
            force_setattr(receipt, "sequence", None)
            return unrecordable(fault)
        at, event = receipt.at_epoch_s, receipt.event
        if not tip.position:
            self.streams += (tip.stream, adapter, session or "", position, at)
        if at > self.newest_second:
            self.newest_second = at
            self.seconds += (at, position)
        state = advance(tip.state, event, receipt.telemetry_summary)
        link = sha256(tip.link + text).digest()
        self.values += (position, tip.stream, tip.position, sequence, at, event, receipt.status)
        self.values += (state.ended, frames_text(state), state.harness_sequence, link, text, key, digest)
        self.tips[place] = Tip(tip.stream, position, sequence or 0, link, state)
        self.head = position
        self.bytes += len(text)
        row = Row(position=position, adapter_id=adapter, harness_session_id=session, sequence=sequence, receipt=text)
        self.rows.append(row)
        return Appended(row=row)
