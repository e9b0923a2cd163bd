"""Signals as text: one short line each, without a word of the conversation."""

from typing import Any, Final

from lifebus.cli.terminal import size_text
from lifebus.signals import SignalReceived

COLUMNS: Final = (("thread", 13), ("seq", 5), ("event", 42), ("note", 17))
"""The columns of a short line with their widths: 80 with one space between."""

_PREFIX: Final = "app_server."
_TAIL: Final = 6


def thread_label(signal: SignalReceived) -> str:
    """Return adapter and the end of the thread's id, which differs where their beginnings do not."""
    tail = signal.thread if len(signal.thread) <= _TAIL else "…" + signal.thread[-_TAIL:]
    return f"{signal.adapter_id[: 12 - len(tail)]} {tail}".rstrip()


def short_line(signal: SignalReceived) -> tuple[str, ...]:
    """Return the cells of `COLUMNS`; of an event that is too long, the end is kept, which says more."""
    event, width = signal.event_type.removeprefix(_PREFIX), COLUMNS[2][1]
    if len(event) > width:
        event = "…" + event[1 - width :]
    envelope = signal.envelope
    turn, asked = _turn_of(envelope), envelope.get("requestId")
    about = f"request {asked}" if asked is not None else f"turn …{turn[-_TAIL:]}" if turn else ""
    return thread_label(signal), str(signal.sequence), event, f"{about} {_size_of(signal, envelope)}".strip()


def whole_line(signal: SignalReceived) -> str:
    """Return a line that a pipe can cut: time, thread, sequence, event, then named extras."""
    envelope = signal.envelope
    extras = {"turn": _turn_of(envelope), "request": envelope.get("requestId"), "bytes": len(signal.raw)}
    if "paramsBytes" in envelope:
        extras["params_left_out"] = envelope["paramsBytes"]
    head = (
        str(envelope.get("receivedAt")),
        f"{signal.adapter_id}/{signal.thread or '-'}",
        str(signal.sequence),
        signal.event_type,
    )
    return " ".join([*head, *(f"{name}={value}" for name, value in extras.items() if value is not None)])


def _turn_of(envelope: dict[str, Any]) -> str | None:
    turn = envelope.get("context", {}).get("turnId")
    return turn if isinstance(turn, str) else None


def _size_of(signal: SignalReceived, envelope: dict[str, Any]) -> str:
    left_out = envelope.get("paramsBytes")
    return size_text(len(signal.raw)) if left_out is None else f"({size_text(left_out)})"
