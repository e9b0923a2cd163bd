"""What is sent of a stream: frames, as messages of a WebSocket and as server-sent events.  Pure."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from lifebus_transports.messages.reads import WireReceipt
from lifebus_transports.messages.signals import WireSignal

KEEP_ALIVE: Final = b": here\n\n"
"""A comment, which shows a client of server-sent events that the connection lives."""


class Missing(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a stream cannot give: numbers after `after` up to `through` of a topic.

    `pruned` are dropped by retention or quota, `deleted` with their thread; `other_history` says that `after` belongs
    to another history of the ledger, whose numbers say nothing here; `ahead_of_history` that it was never reached.
    """

    topic: str
    after: int
    through: int
    reason: Literal["pruned", "deleted", "other_history", "ahead_of_history"]


class Standing(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a stream begins in a topic: it sends what comes after `after`; `head` is the newest number."""

    topic: str
    after: int
    head: int


class Ready(Struct, frozen=True, kw_only=True, rename="camel"):
    """The first frame: whether everything since the last event id follows.

    `resume` is `none` where no last event id was given, `complete`, or `incomplete`, and then `missing` says what is.
    """

    thread_id: str | None
    resume: Literal["none", "complete", "incomplete"]
    topics: tuple[Standing, ...]
    missing: tuple[Missing, ...] = ()


class Behind(Struct, frozen=True, kw_only=True, rename="camel"):
    """A client reads more slowly than records come in, so that it now gets them from the ledger; none is left out."""

    topic: str
    after: int
    head: int


class Trouble(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a command was not followed, or a stream ends; in the latter case the last id leads on."""

    code: str
    message: str


class ReceiptPayload(Struct, frozen=True, kw_only=True, rename="camel"):
    """One recorded receipt: its place in the ledger, its number in its session, the receipt as the contract has it."""

    position: int
    sequence: int | None
    receipt: msgspec.Raw


class SignalPayload(Struct, frozen=True, kw_only=True, rename="camel"):
    """One signal of an app-server: its number in its thread, and its envelope (docs/app-server.md)."""

    sequence: int
    signal: msgspec.Raw


class ReadyFrame(Struct, frozen=True, kw_only=True, rename="camel", tag="ready", tag_field="type"):
    """The first frame of a stream."""

    id: str
    thread_id: str | None = None
    payload: Ready


class GapFrame(Struct, frozen=True, kw_only=True, rename="camel", tag="gap", tag_field="type"):
    """Records are gone that this stream had yet to send."""

    id: str
    thread_id: str | None = None
    payload: Missing


class BehindFrame(Struct, frozen=True, kw_only=True, rename="camel", tag="behind", tag_field="type"):
    """The client is late."""

    id: str
    thread_id: str | None = None
    payload: Behind


class CaughtUpFrame(Struct, frozen=True, kw_only=True, rename="camel", tag="caught_up", tag_field="type"):
    """A client that was late has everything there is."""

    id: str
    thread_id: str | None = None
    payload: Behind


class CursorFrame(Struct, frozen=True, kw_only=True, rename="camel", tag="cursor", tag_field="type"):
    """The stream moved past records that its filters leave out."""

    id: str
    thread_id: str | None = None


class PongFrame(Struct, frozen=True, kw_only=True, rename="camel", tag="pong", tag_field="type"):
    """The answer to `ping`."""

    id: str | None = None
    thread_id: str | None = None


class ErrorFrame(Struct, frozen=True, kw_only=True, rename="camel", tag="error", tag_field="type"):
    """A command was not followed, or the stream ends."""

    id: str | None = None
    thread_id: str | None = None
    payload: Trouble


ControlFrame = ReadyFrame | GapFrame | BehindFrame | CaughtUpFrame | CursorFrame | PongFrame | ErrorFrame
"""A frame about the stream itself."""


class EventFrame(Struct, frozen=True, kw_only=True, rename="camel"):
    """A record of a topic.

    `type` is `receipt`, the event type of a signal, or the name of an event of queue and transcripts; `id` is the last
    event id that continues behind it.
    """

    id: str
    type: Annotated[str, Meta(min_length=1)]
    thread_id: str | None
    topic: str
    payload: msgspec.Raw


class SubscribeCommand(
    Struct, frozen=True, kw_only=True, rename="camel", tag="subscribe", tag_field="type", forbid_unknown_fields=True
):
    """Follow something else: from where a last event id says, else from now on or the oldest record (`from`).

    Without a `from`, that of the address counts, as its filters of receipts do.
    """

    thread_id: str | None = None
    topics: tuple[str, ...] = ()
    last_event_id: str | None = None
    begin: Literal["now", "oldest"] | None = field(default=None, name="from")


class UnsubscribeCommand(
    Struct, frozen=True, kw_only=True, rename="camel", tag="unsubscribe", tag_field="type", forbid_unknown_fields=True
):
    """Follow nothing."""


class PingCommand(
    Struct, frozen=True, kw_only=True, rename="camel", tag="ping", tag_field="type", forbid_unknown_fields=True
):
    """Is answered with `pong`."""


Command = SubscribeCommand | UnsubscribeCommand | PingCommand
"""What a client of a WebSocket may send."""


class PreparedRecord(Struct, frozen=True):
    """A record that is made ready for every follower: its number, and its frame without the id."""

    number: int
    tail: bytes


class _Session(Struct):
    harness_session_id: str | None = None


class _Own(Struct, rename="camel"):
    type: str
    thread_id: str | None = None
    payload: msgspec.Raw = msgspec.Raw(b"{}")


_encode: Final = msgspec.json.Encoder().encode
_session_of: Final = msgspec.json.Decoder(_Session)
_own_event: Final = msgspec.json.Decoder(_Own)


def receipt_item(topic: str, row: WireReceipt) -> PreparedRecord:
    """Return a receipt made ready; its own bytes stay as they are."""
    session = _session_of.decode(row.receipt).harness_session_id
    payload = _encode(ReceiptPayload(position=row.position, sequence=row.sequence, receipt=msgspec.Raw(row.receipt)))
    return PreparedRecord(row.position, _tail("receipt", session, topic, payload))


def signal_item(topic: str, thread: str, row: WireSignal) -> PreparedRecord:
    """Return a signal of an app-server made ready."""
    payload = _encode(SignalPayload(sequence=row.sequence, signal=msgspec.Raw(_one_line(row.signal))))
    return PreparedRecord(row.sequence, _tail(row.event_type, thread or None, topic, payload))


def own_item(topic: str, row: WireSignal) -> PreparedRecord:
    """Return an event of queue or transcripts made ready, whose envelope is the frame already."""
    event = _own_event.decode(_one_line(row.signal))
    return PreparedRecord(row.sequence, _tail(event.type, event.thread_id, topic, bytes(event.payload)))


def control_message(frame: ControlFrame) -> str:
    """Return the message of a WebSocket for a frame about the stream."""
    return _encode(frame).decode()


def control_event(frame: ControlFrame) -> bytes:
    """Return the server-sent event for a frame about the stream; its id, where it has one, becomes the last one."""
    head = f"id: {frame.id}\n".encode() if frame.id is not None else b""
    return head + b"data: " + _encode(frame) + b"\n\n"


def _tail(kind: str, thread: str | None, topic: str, payload: bytes) -> bytes:
    head = _encode({"type": kind, "threadId": thread, "topic": topic})
    return head[1:-1] + b',"payload":' + payload + b"}"


def _one_line(document: bytes) -> bytes:
    """Return JSON without line breaks, which would end a server-sent event."""
    return msgspec.json.format(document, indent=-1) if b"\n" in document or b"\r" in document else document
