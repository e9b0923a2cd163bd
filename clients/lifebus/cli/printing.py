"""Receipts as text, one by one: short and aligned for people, whole for pipes, canonical for programs."""

import os
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

import msgspec

from lifebus._internal.view import Gap, Position
from lifebus.cli.session_names import SessionNames
from lifebus.cli.terminal import clean, paint, put, put_bytes, status_color
from lifebus.cli.wording.receipt_line import receipt_line, sequence_text, session_text, utc_text
from lifebus_contract import SUPPORT_STRENGTH, LifecycleEvent, Receipt, encode_json
from lifebus_contract.ids import RECEIPT

T = TypeVar("T")

COLUMNS: Final = (("time", 8), ("session", 13), ("seq", 4), ("event", 25), ("status", 9), ("note", 16))
"""The columns of a short line with their widths: 80 with one space between."""

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_TIME: Final = 10
_SESSION: Final = 13
_SESSION_TAIL: Final = 6
_PRESSURE: Final = ("context_used_tokens", "context_used_pct", "context_pressure")


_CORRECTIONS: Final = {
    "prompt_blocked": "never reached the model: the prompt was blocked",
    "answer_not_taken": "never reached the harness: it did not get the hook's answer",
}


def session_label(receipt: Receipt, names: SessionNames | None = None) -> str:
    """Return the session's short name, else adapter and the end of its id, which differs where beginnings do not."""
    session = receipt.harness_session_id
    if session is None:
        return receipt.adapter_id[:_SESSION]
    name = None if names is None else names.get((receipt.adapter_id, session))
    if name is not None:
        # The number distinguishes it, so the folder is what is cut.
        folder, _, number = name.rpartition("#")
        return name if len(name) <= _SESSION else f"{folder[: _SESSION - len(number) - 2]}…#{number}"
    tail = session if len(session) <= _SESSION_TAIL else "…" + session[-_SESSION_TAIL:]
    return f"{receipt.adapter_id[: _SESSION - 1 - len(tail)]} {tail}"


def placement_of(receipt: Receipt) -> str:
    """Return where payloads went, or would have gone: each placement once."""
    return " ".join(dict.fromkeys(one.placement.value for one in receipt.payload_receipts if one.placement))


def degraded_of(receipt: Receipt) -> str:
    """Return what is lost, and with a plus before it what is back."""
    strength = SUPPORT_STRENGTH
    return " ".join(
        ("+" if strength[one.current_support] > strength[one.previous_support] else "") + one.capability
        for one in receipt.capability_degradations
    )


def fact_of(receipt: Receipt) -> str:
    """Return what the telemetry says, in a few words: how full the context is, how a frame ended, why."""
    facts = receipt.telemetry_summary
    used, percent, level = (facts.get(name) for name in _PRESSURE)
    if receipt.event is LifecycleEvent.CONTEXT_PRESSURE_OBSERVED:
        share = f"{percent} %" if percent is not None else f"{used} tokens" if used is not None else ""
        return " ".join(str(part) for part in (share, level, facts.get("source_hook")) if part)
    if facts.get("waiting_for") is not None:
        return wait_of(receipt)
    end = facts.get("frame_end") or facts.get("session_end")
    if end is not None and end != "completed":
        return str(end)
    if facts.get("forgotten") is True:
        return "forgotten"
    return str(facts.get("trigger") or facts.get("canary") or "")


def wait_of(receipt: Receipt) -> str:
    """Return in words that a session begins to wait for a person, and for what, or what ended that."""
    facts = receipt.telemetry_summary
    kind = f" ({facts['waiting_kind']})" if facts.get("waiting_kind") else ""
    if facts.get("waiting") == "begun":
        return f"waits for {facts['waiting_for']}{kind}"
    return f"waits no more: {facts.get('waiting_ended_by', 'ended')}"


def correction_of(receipt: Receipt) -> str:
    """Return in words why a receipt takes back what another one promised; empty where it does not."""
    facts = receipt.telemetry_summary
    return _CORRECTIONS.get(str(facts.get("cause")), "it turned out false") if "corrects" in facts else ""


def note_of(receipt: Receipt) -> str:
    """Return the one thing worth saying beside the status: what is lost, the failure, the placement, or the facts."""
    if degraded := degraded_of(receipt):
        return degraded
    if correction := correction_of(receipt):
        return correction
    if receipt.failure_class is not None:
        return receipt.failure_class.value
    if placement := placement_of(receipt):
        return f"→ {placement}"
    return fact_of(receipt)


def short_line(receipt: Receipt, names: SessionNames | None = None) -> tuple[str, ...]:
    """Return the cells of `COLUMNS`; the time is that of the user's clock."""
    sequence = sequence_text(receipt.sequence)
    at = _local(receipt)
    clock = "-" if at is None else at.strftime("%H:%M:%S")
    return clock, session_label(receipt, names), sequence, receipt.event.value, receipt.status.value, note_of(receipt)


def whole_line(receipt: Receipt, name: str | None = None) -> str:
    """Return a line that a pipe can cut: time, session, sequence, event, status, then named extras."""
    extras = {
        "client": receipt.client_id,
        "placement": placement_of(receipt),
        "failure": receipt.failure_class.value if receipt.failure_class else "",
        "degraded": degraded_of(receipt).replace(" ", ","),
        "correction": f'"{correction}"' if (correction := correction_of(receipt)) else "",
        "fact": f'"{fact}"' if " " in (fact := fact_of(receipt)) else fact,
        "receipt": receipt.receipt_id,
        "name": name or "",
    }
    session, sequence = (
        session_text(receipt.adapter_id, receipt.harness_session_id),
        sequence_text(receipt.sequence),
    )
    return receipt_line(receipt.at_epoch_s, (session, sequence, receipt.event.value, receipt.status.value), extras)


def gap_text(gap: Gap) -> str:
    """Return what is lost, and why."""
    what = "positions" if gap.thread is None else f"signals of thread {gap.thread or '-'}"
    if gap.until is None:
        return f"gap: the ledger has another history now ({what} after {gap.after}: {gap.reason})"
    return f"gap: {what} {gap.after + 1} to {gap.until} are gone ({gap.reason})"


def milliseconds_of(receipt: Receipt) -> int:
    """Return when a receipt was made, in milliseconds since 1970: its id says them, and its time only the second."""
    digits = receipt.receipt_id.removeprefix(RECEIPT)[:_ULID_TIME]
    if len(digits) == _ULID_TIME and all(digit in _CROCKFORD for digit in digits):
        at_ms = 0
        for digit in digits:
            at_ms = at_ms * 32 + _CROCKFORD.index(digit)
        # Ids of one source ascend also where the clock steps back: then they say another second.
        if at_ms // 1_000 == receipt.at_epoch_s:
            return at_ms
    return receipt.at_epoch_s * 1_000


def time_of(receipt: Receipt) -> str:
    """Return the receipt's time in RFC 3339, in UTC."""
    return utc_text(receipt.at_epoch_s)


def _local(receipt: Receipt) -> datetime | None:
    """Return the receipt's time on the user's clock; None beyond the year 9999."""
    try:
        return datetime.fromtimestamp(receipt.at_epoch_s, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


Form = Literal["columns", "lines", "json"]
"""For people at a terminal, for pipes, for programs."""

_WIDTHS: Final = tuple(width for _, width in COLUMNS)
_NARROW: Final = sum(_WIDTHS[:5]) + 5 + 8
"""Columns of a terminal from which on a receipt has one line; on a narrower one it has two."""


class ReceiptPrinter:
    """Prints receipts and gaps to stdout; `count` says how many receipts there were.

    `names` has what sessions are called, as far as that is known.
    """

    def __init__(self, *, json: bool, names: SessionNames | None = None) -> None:
        self.count = 0
        self._names = names or SessionNames()
        self._day = datetime.now().astimezone().date()
        self.form: Form = "json" if json else "columns" if sys.stdout.isatty() else "lines"

    def show(self, item: Receipt | Gap, cursor: Position | None = None) -> None:
        """Print one item.

        In JSON it is `{"cursor":…,"at_ms":…,"session":…,"receipt":…}`, or `{"cursor":…,"gap":…}`, on one line.
        """
        if isinstance(item, Receipt):
            self.count += 1
        if self.form == "json":
            self._json(item, cursor)
        elif isinstance(item, Gap):
            put(paint(gap_text(item), "yellow"))
        elif self.form == "lines":
            put(clean(whole_line(item, self._name_of(item))))
        else:
            self._columns(item)

    def _json(self, item: Receipt | Gap, cursor: Position | None) -> None:
        """Write the receipt's canonical bytes as they are, so that their digest can be checked."""
        kind, body = ("gap", msgspec.json.encode(item)) if isinstance(item, Gap) else ("receipt", encode_json(item))
        # Joined from bytes: decoding and encoding again would not give the canonical bytes.
        head = b'{"cursor":"%s",' % str(cursor).encode() if cursor is not None else b"{"
        if isinstance(item, Receipt):
            head += b'"at_ms":%d,"session":%s,' % (milliseconds_of(item), msgspec.json.encode(self._name_of(item)))
        put_bytes(head + b'"%s":%s}' % (kind.encode(), body))
        sys.stdout.flush()

    def _name_of(self, receipt: Receipt) -> str | None:
        session = receipt.harness_session_id
        return None if session is None else self._names.get((receipt.adapter_id, session))

    def _columns(self, receipt: Receipt) -> None:
        width = shutil.get_terminal_size().columns
        if self.count == 1 and width >= _NARROW:
            titles = (title.ljust(width) for title, width in COLUMNS)
            put(paint(" ".join(titles).rstrip(), "bold"))
        # The column has the time of day: of another day than today, and of each that follows, the date is said once.
        at = _local(receipt)
        if at is not None and at.date() != self._day:
            self._day = at.date()
            put(paint(self._day.isoformat(), "dim"))
        clock, session, sequence, event, status, note = (clean(cell) for cell in short_line(receipt, self._names))
        color = status_color(receipt.status.value)
        if width < _NARROW:
            room = max(1, width - _WIDTHS[0] - 1)
            put(f"{paint(clock.ljust(_WIDTHS[0]), 'dim')} {_cut(f'{session} {event}', room)}")
            put(" " * (_WIDTHS[0] + 1) + paint(_cut(f"{sequence} {status} {note}".rstrip(), room), color))
            return
        note = _cut(note, width - sum(_WIDTHS[:5]) - 5)
        cells = [
            paint(clock.ljust(_WIDTHS[0]), "dim"),
            session.ljust(_WIDTHS[1]),
            sequence.rjust(_WIDTHS[2]),
            event.ljust(_WIDTHS[3]),
            paint(status.ljust(_WIDTHS[4]), color),
            paint(note, color or "dim"),
        ]
        put(" ".join(cells).rstrip())


def _cut(text: str, room: int) -> str:
    """Return what of a text has room, with a sign: what ends in the middle of a word would look whole."""
    return text if len(text) <= room else text[: room - 1] + "…"


async def print_each(items: AsyncIterator[T], show: Callable[[T], None]) -> None:
    """Show every item until there is none any more.

    Raises:
        BrokenPipeError: the reader of our pipe went away, which is noticed even while nothing is written.
    """
    import asyncio  # noqa: PLC0415

    import anyio  # noqa: PLC0415

    with anyio.CancelScope() as scope:
        # The writing end counts as readable once its reader has closed: noticed without writing anything.
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            asyncio.get_running_loop().add_reader(1, scope.cancel)
        async for item in items:
            show(item)
    if scope.cancel_called:
        raise BrokenPipeError
