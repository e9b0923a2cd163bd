"""Decide what one transaction will hold: number the receipts, link them, find duplicates among them.

Nothing here changes what is committed: a batch keeps the changed tips to itself until its transaction has
succeeded, so a rollback only drops the batch and takes the numbers off the receipts again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from lifebus_broker.ledger.refusals import PRUNED, conflicting, unrecordable
from lifebus_broker.ledger.sqlite.checksums import checksum, guarded
from lifebus_broker.ports import (
    EMITTER,
    AppendResult,
    DamagedReceipt,
    Known,
    NewReceipt,
    StoredReceipt,
    is_same_content,
)
from lifebus_broker.state.session_head import INITIAL, HeadState, next_head
from lifebus_broker.state.stream_digests import NO_LINK, StreamKey, link_after, sequence_after
from lifebus_contract import Receipt, encode_json

COLUMNS: Final = 14
"""How many values a drafted row has in `Batch.values`, in the order of the view `intake`."""

COMMIT_ROWS: Final = 512
"""Rows after which no further append joins a transaction."""

COMMIT_WEIGHT: Final = 1_048_576
"""Estimated bytes after which no further append joins a transaction."""


class Tip(Struct, frozen=True):
    """The newest receipt of a stream: what the next one continues; position 0 in a stream without any.

    `frames` are the open frames of `state` as the row's column holds them: a JSON list, None when there are none.
    """

    stream: int
    position: int = 0
    sequence: int = 0
    link: bytes = NO_LINK
    state: HeadState = INITIAL
    frames: str | None = None


def key_of(client_id: str, adapter_id: str, idempotency_key: str) -> str:
    """Return the text under which a key is stored: natural order, so that ascending keys land side by side.

    The ids of client and adapter hold no control characters, so the separator is unambiguous.
    """
    return f"{client_id}\x1f{adapter_id}\x1f{idempotency_key}"


def emitter_key_of(receipt: Receipt) -> str | None:
    """Return the key under which who reported the event finds this receipt, None when it is the reporter's own."""
    emitter, raw = receipt.telemetry_summary.get(EMITTER), receipt.idempotency_key
    if not isinstance(emitter, str) or raw is None or emitter == receipt.client_id:
        return None
    return key_of(emitter, receipt.adapter_id, raw)


def frames_text(state: HeadState) -> str | None:
    """Return the open frames as a JSON list, None when there are none."""
    return msgspec.json.encode(state.open_frames).decode() if state.open_frames else None


def state_from(ended: int, frames: str | None, harness_sequence: int | None) -> HeadState:
    """Return the state that the columns of a row hold."""
    open_frames = () if frames is None else msgspec.json.decode(frames, type=tuple[str, ...])
    return HeadState(ended=bool(ended), harness_sequence=harness_sequence, open_frames=open_frames)


def weight_of(receipts: Sequence[NewReceipt]) -> int:
    """Return about how many bytes the receipts will take; a queue is bounded by it."""
    weight = 0
    for receipt, _ in receipts:
        items = len(receipt.payload_receipts) + len(receipt.capability_degradations) + len(receipt.warnings)
        weight += 640 + 320 * items + 64 * len(receipt.telemetry_summary)
    return weight


class Batch:
    """The content of one transaction, built append by append.

    `tip_of` returns the committed tip of a stream; `known` holds what keys of this transaction turned out to
    stand for already.  `values` is the flat list of bindings of the rows, `streams` that of new streams,
    `seconds` that of newly begun seconds and `aliases` that of further keys of rows.  Unless `numbered`, receipts
    get no sequence.
    """

    def __init__(
        self,
        tip_of: Callable[[StreamKey], Tip],
        *,
        head: int,
        newest_second: int,
        known: Mapping[str, Known],
        numbered: bool = True,
    ) -> None:
        self.head, self.newest_second = head, newest_second
        self.values: list[object] = []
        self.streams: list[object] = []
        self.seconds: list[int] = []
        self.aliases: list[object] = []
        self.stored: list[StoredReceipt] = []
        self.tips: dict[StreamKey, Tip] = {}
        self.bytes = 0
        self._tip_of = tip_of
        self._known = dict(known)
        self._numbered = numbered
        self._added: list[Sequence[NewReceipt]] = []

    def add(self, receipts: Sequence[NewReceipt]) -> list[AppendResult]:
        """Draft one append; the results hold once the transaction is committed."""
        self._added.append(receipts)
        results: list[AppendResult] = []
        for receipt, digest in receipts:
            raw = receipt.idempotency_key
            if raw is None or digest is None:
                results.append(self._assign(receipt, None, None))
                continue
            key = f"{receipt.client_id}\x1f{receipt.adapter_id}\x1f{raw}"  # as key_of, without the call
            known = self._known.get(key)
            if known is not None:
                results.append(_result_of(known, raw, digest))
                continue
            result = self._assign(receipt, key, digest)
            results.append(result)
            if result.stored is not None:
                self._known[key] = (digest, result.stored)
                if EMITTER in receipt.telemetry_summary:
                    # the emitter finds the receipt of its emission, although a client's name stands in the receipt
                    self._file_for_emitter(receipt, digest, result.stored)
        return results

    def _file_for_emitter(self, receipt: Receipt, digest: bytes, stored: StoredReceipt) -> None:
        """Make the receipt known under the key of who reported the event, unless that key is taken."""
        key = emitter_key_of(receipt)
        if key is not None and key not in self._known:
            self._known[key] = (digest, stored)
            self.aliases += (key, guarded(key, digest, stored.position), stored.position)

    def rollback(self) -> None:
        """Take the sequences off the receipts again: the transaction did not happen."""
        for receipts in self._added:
            for receipt, _ in receipts:
                force_setattr(receipt, "sequence", None)

    def _assign(self, receipt: Receipt, key: str | None, digest: bytes | None) -> AppendResult:
        """Give the receipt its position, sequence and link, and note what has to be stored."""
        adapter, session = place = (receipt.adapter_id, receipt.harness_session_id)
        # the batch's own tip first: an earlier receipt of this transaction may be the one before
        tip = self.tips.get(place) or self._tip_of(place)
        sequence = sequence_after(tip.sequence, session)
        if sequence is not None and self._numbered:
            force_setattr(receipt, "sequence", sequence)
        position = self.head + 1
        try:
            stored = StoredReceipt(
                position=position,
                adapter_id=adapter,
                harness_session_id=session,
                sequence=receipt.sequence,
                receipt=encode_json(receipt),
            )
        except (UnicodeError, ValueError) as fault:
            # no position is taken yet: the next receipt gets the number that this one had
            force_setattr(receipt, "sequence", None)
            return unrecordable(fault)
        # after the encoding: what cannot be written down must leave no hole
        self.head = position
        at, event = receipt.at_epoch_s, receipt.event
        if not tip.position:
            begun = (tip.stream, adapter, session or "", position, at)
            self.streams += (*begun, checksum(*begun))
        if at > self.newest_second:
            self.newest_second = at
            self.seconds += (at, position, checksum(at, position))
        state = next_head(tip.state, event, receipt.telemetry_summary)
        frames = tip.frames if state.open_frames is tip.state.open_frames else frames_text(state)
        link = link_after(tip.link, stored.receipt)
        self.values += (position, tip.stream, tip.position, sequence, at, event, receipt.status)
        guard = None if key is None or digest is None else guarded(key, digest, position)
        self.values += (state.ended, frames, state.harness_sequence, link, stored.receipt, key, guard)
        self.tips[place] = Tip(tip.stream, position, sequence or 0, link, state, frames)
        self.bytes += len(stored.receipt)
        self.stored.append(stored)
        return AppendResult(stored=stored)


def _result_of(known: Known, key: str, digest: bytes) -> AppendResult:
    """Return the result of a receipt whose key is known (docs/contract.md 6.5)."""
    if not is_same_content(known[0], digest):
        return conflicting(key)
    if isinstance(known[1], DamagedReceipt):  # no second receipt for it, and no altered bytes as the answer
        return AppendResult(refusal=known[1])
    return PRUNED if known[1] is None else AppendResult(stored=known[1], replayed=True)
