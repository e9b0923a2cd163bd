"""What stands on the lines: questions in; answers, items and dispatches out (docs/stdio.md).  Pure.

Above: peer, following, serving.  Below: the contract, the messages of the request door.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, cast

import msgspec
from msgspec import Meta, Struct, field

from lifebus.stdio.framing import Overlong
from lifebus.view import Cursor
from lifebus_contract import InvalidRequest, LifebusError, encode_json, encode_msgpack, validate
from lifebus_contract.codec import load_json
from lifebus_contract.cursors import CursorSettings
from lifebus_contract.fields import MAX_MESSAGE_BYTES, Count, Document, Identifier
from lifebus_transports.messages import RefusalInfo

__all__ = [
    "MAX_LINE",
    "ConsumeReceipts",
    "FollowReceipts",
    "FollowSignals",
    "Junk",
    "Question",
    "QuestionId",
    "Settle",
    "Unsubscribe",
    "decode_question",
    "decode_wish",
    "encode_answer",
    "encode_body",
    "encode_line",
    "encode_refusal",
    "patience_for",
    "verbatim",
]

MAX_LINE: Final = MAX_MESSAGE_BYTES
"""Longest line that is read, in bytes without its newline."""

QuestionId = Annotated[str, Meta(min_length=1, max_length=256)] | int
"""What a question is called by whoever asks; 0 is an id, null is none."""

_Place = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}:[0-9]{1,15}$(?!\n)")]
_Start = Annotated[str, Meta(pattern=r"^(?:start|[0-9a-f]{32}:[0-9]{1,15})$(?!\n)")]
_MAX_WAIT_MS: Final = 30_000
_JSON: Final = msgspec.json.Encoder()


class Question(Document, frozen=True, kw_only=True):
    """One line that was read: what is asked, and under which id the answer is wanted."""

    id: QuestionId
    verb: Annotated[str, Meta(pattern=r"^[a-z]{1,32}$(?!\n)")]
    body: dict[str, Any] = field(default_factory=dict[str, Any])


class Junk(Struct, frozen=True):
    """A line that is no question: why, and the id where one could be read."""

    id: QuestionId | None
    fault: LifebusError


class _Wish(Document, frozen=True, kw_only=True):
    """What the wishes to follow receipts share: where to begin."""

    since: _Start | Count | None = None
    since_epoch_s: Count | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.since_epoch_s is not None:
            raise ValueError("since_epoch_s: since and since_epoch_s are two ways to say where to begin; give one")

    def start(self) -> Cursor | int | datetime | str | None:
        """Return where to begin, as the client library takes it.

        Raises:
            InvalidRequest: a time that no calendar has.
        """
        if self.since_epoch_s is None:
            return _start_of(self.since)
        try:
            return datetime.fromtimestamp(self.since_epoch_s, UTC)
        except (ValueError, OverflowError, OSError):
            detail = "$.since_epoch_s: no calendar has this time"
            raise InvalidRequest(detail, code="against_contract", field="$.since_epoch_s") from None


class FollowReceipts(_Wish, frozen=True, kw_only=True):
    """`subscribe` to the receipts of the whole ledger or of one session.

    Begins after `since` (a position, ``EPOCH:POSITION``, ``start``), or at a time, or with what comes from now on.
    With `until_head` it ends at the receipt that is the newest when it begins.
    """

    session: tuple[Identifier, Identifier] | None = None
    until_head: bool = False


class FollowSignals(Document, frozen=True, kw_only=True):
    """`subscribe` to the signals of the app-servers of an adapter, named by `signals`: of one thread or of all.

    `since` is one place where there is one thread, else a place a thread; `last`, `event` and `until_head` are as in
    the client library.
    """

    signals: Identifier
    thread: Annotated[str, Meta(max_length=256)] | None = None
    event: Annotated[str, Meta(max_length=256)] | None = None
    last: Count | None = None
    since: _Start | Count | dict[str, _Place] | None = None
    until_head: bool = False

    def start(self) -> Cursor | dict[str, Cursor] | int | str | None:
        """Return where to begin, as the client library takes it."""
        if isinstance(self.since, dict):
            return {thread: Cursor.parse(place) for thread, place in self.since.items()}
        return _start_of(self.since)


class ConsumeReceipts(_Wish, frozen=True, kw_only=True):
    """`subscribe` under a `name` whose place the broker remembers: each receipt until it is acknowledged.

    `since` says where a new name begins; `settings` are those of the wire's `consume`.
    """

    name: Identifier
    settings: CursorSettings = CursorSettings()
    until_head: ClassVar[bool] = False


class Settle(Document, frozen=True, kw_only=True):
    """`ack` and `nack` of what a named subscription told, by the cursors that were told with it.

    `delay_ms` is for `nack`: how long until it comes again.
    """

    subscription: Count
    cursors: Annotated[tuple[_Place, ...], Meta(min_length=1, max_length=1024)]
    delay_ms: Annotated[int, Meta(ge=0, le=3_600_000)] | None = None

    def places(self) -> list[Cursor]:
        """Return the cursors as the client library takes them."""
        return [Cursor.parse(cursor) for cursor in self.cursors]


class Unsubscribe(Document, frozen=True, kw_only=True):
    """`unsubscribe`: end the subscription with this number."""

    subscription: Count


def decode_wish(body: dict[str, Any]) -> FollowReceipts | FollowSignals | ConsumeReceipts:
    """Return what a `subscribe` asks for, which its keys tell.

    Raises:
        InvalidRequest: it cannot be understood.
    """
    if "signals" in body:
        return validate(body, FollowSignals)
    if "name" in body:
        return validate(body, ConsumeReceipts)
    return validate(body, FollowReceipts)


def decode_question(line: bytes | Overlong) -> Question | Junk:
    """Return the question on a line, read as strictly as every message of the bus, or why there is none."""
    if isinstance(line, Overlong):
        detail = f"line of {line.size} bytes; the limit is {MAX_LINE}"
        return Junk(None, InvalidRequest(detail, code="too_large", field="$"))
    plain: Any = None
    try:
        plain = load_json(line, max_bytes=MAX_LINE, max_items=MAX_LINE)
        return validate(plain, Question)
    except InvalidRequest as fault:
        return Junk(_id_of(plain), fault)


def encode_body(question: Question) -> bytes:
    """Return the body as the request door takes it: what is JSON of its own there, a signal, becomes a byte string."""
    body = question.body
    if question.verb == "observe" and isinstance(body.get("observations"), list):
        body = {**body, "observations": [_with_bytes(one) for one in body["observations"]]}
    return encode_msgpack(body)


def patience_for(question: Question) -> float:
    """Return how many seconds the question asks the broker to wait before it answers."""
    match question.body.get("wait_ms"):
        case int() as wait_ms if 0 <= wait_ms <= _MAX_WAIT_MS:
            return wait_ms / 1000
        case _:
            return 0.0


def encode_line(message: dict[str, object]) -> bytes:
    """Return a message as one line of JSON with its newline; keys keep their order."""
    return _JSON.encode(message) + b"\n"


def encode_answer(question: QuestionId, answer: object) -> bytes:
    """Return the line of an answer; byte strings in it are JSON documents and stand there verbatim."""
    return encode_line({"id": question, "ok": _embedded(answer)})


def encode_refusal(question: QuestionId | None, fault: LifebusError) -> bytes:
    """Return the line of a refusal; without an id where the question could not be read."""
    return encode_line({"id": question, "refused": RefusalInfo.of(fault)})


def verbatim(document: Document) -> msgspec.Raw:
    """Return a document as it stands in a line: for a receipt the canonical bytes."""
    return msgspec.Raw(encode_json(document))


def _embedded(value: object) -> object:
    """Replace every byte string, which on the bus is JSON of its own, by what it says."""
    match value:
        case bytes():
            return msgspec.Raw(value)
        case dict():
            return {key: _embedded(item) for key, item in cast("dict[str, object]", value).items()}
        case list() | tuple():
            return [_embedded(item) for item in cast("list[object]", value)]
        case _:
            return value


def _start_of(since: str | int | None) -> Cursor | int | str | None:
    return Cursor.parse(since) if isinstance(since, str) and since != "start" else since


def _with_bytes(observation: Any) -> Any:
    match observation:
        case {"kind": "signal", "signal": signal, **others}:
            return {"kind": "signal", "signal": _JSON.encode(signal), **others}
        case _:
            return observation


def _id_of(plain: Any) -> QuestionId | None:
    """Return the id of a question that is wrong elsewhere."""
    try:
        found: QuestionId = msgspec.convert(plain["id"], QuestionId)
    except (TypeError, KeyError, msgspec.ValidationError):
        return None
    return found
