"""What stands on the lines: questions in; answers, items and dispatches out (docs/stdio.md).  Pure."""

from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta, Struct, field

from lifebus_contract import InvalidRequest, LifebusError, encode_json, encode_msgpack, validate
from lifebus_contract.codec import load_json
from lifebus_contract.fields import MAX_MESSAGE_BYTES, Document
from lifebus_transports.framing.lines import Overlong
from lifebus_transports.messages.common import RefusalInfo

MAX_LINE: Final = MAX_MESSAGE_BYTES
"""Longest line that is read, in bytes without its newline."""

QuestionId = Annotated[str, Meta(min_length=1, max_length=256)] | int
"""What a question is called by whoever asks; 0 is an id, null is none."""

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
            fields = cast("dict[str, object]", value)
            data = fields.get("data")
            if isinstance(data, bytes) and fields.get("size") != len(data):  # a piece of a state is no JSON yet
                return {**fields, "data": data.decode()}
            return {key: _embedded(item) for key, item in fields.items()}
        case list() | tuple():
            return [_embedded(item) for item in cast("list[object]", value)]
        case _:
            return value


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
