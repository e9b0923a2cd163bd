"""Handles: the texts that name what a compaction was made of (docs/ledger.md C5).

``<adapter>/<session>@<sequence>:<link>`` points at one entry of the facts ledger.  The link is that of the stream's
newest receipt then, so the handle stands for every byte of the stream up to there.  ``log@<position>`` is all of the
log up to a position, ``receipt@<position>`` one receipt of it.  Names are escaped: a handle is read in one way only.
"""

import re
from typing import Final
from urllib.parse import quote, unquote

from lifebus_broker.state.stream_digests import NO_RECEIPT, FactsLedger, Stream, StreamKey

# Colon, slash and at-sign are escaped within names, so a handle has one reading.
_FORM: Final = re.compile(r"([^/@:]+)/([^/@:]*)@(0|[1-9]\d*):([0-9a-f]{64})")
_LOG: Final = re.compile(r"log@([1-9]\d{0,15})")


def handle_of(key: StreamKey, stream: Stream) -> str:
    """Return the handle of an entry of the facts ledger; receipts without a session have no sequence, hence 0."""
    adapter_id, session = key
    return f"{quote(adapter_id, safe='')}/{quote(session or '', safe='')}@{stream.sequence}:{stream.link.hex()}"


def stream_of(handle: str) -> StreamKey | None:
    """Return the stream that a handle points at, None where it points at none."""
    found = _FORM.fullmatch(handle)
    return None if found is None else (unquote(found[1]), unquote(found[2]) or None)


def is_current(handle: str, facts: FactsLedger) -> bool:
    """Whether a handle names what the facts ledger says of the stream now: it got no receipt since."""
    key = stream_of(handle)
    stream = NO_RECEIPT if key is None else facts.get(key)
    return key is not None and stream is not NO_RECEIPT and handle_of(key, stream) == handle


def log_handle(position: int) -> str:
    """Return the handle of all the log up to a position."""
    return f"log@{position}"


def receipt_handle(position: int) -> str:
    """Return the handle of one receipt; the link of its stream stands for its bytes."""
    return f"receipt@{position}"


def position_of(handle: str) -> int | None:
    """Return the position of the log that a handle names, None where it names none."""
    found = _LOG.fullmatch(handle)
    return None if found is None else int(found[1])
