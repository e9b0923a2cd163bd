"""Verbs as lines of JSON: requests in; answers, items and dispatches out (docs/stdio.md).  Pure.

`lifebus dev stdio` speaks them on its streams, the broker on its line socket (docs/wire-protocol.md).
"""

from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta, Struct, field, structs

from lifebus_contract import InvalidRequest, LifebusError, encode_json, encode_msgpack, validate
from lifebus_contract.codec import load_json
from lifebus_contract.fields import MAX_MESSAGE_BYTES, Document
from lifebus_transports.framing.lines import Overlong
from lifebus_transports.messages.common import MAX_COMPACTION_MS, RefusalInfo
from lifebus_transports.messages.verb_types import Verb
from lifebus_transports.workspace.faults import file_fault

MAX_LINE: Final = MAX_MESSAGE_BYTES
"""Longest line that is read, in bytes without its newline."""

RequestId = Annotated[str, Meta(min_length=1, max_length=256)] | int
"""What the peer calls a request; 0 is an id, null is none."""

_MAX_WAIT_MS: Final = MAX_COMPACTION_MS
"""Longest that any verb lets a caller ask for; the broker refuses what is too long for its verb."""

_JSON: Final = msgspec.json.Encoder()


class LineRequest(Document, frozen=True, kw_only=True):
    """One line that was read: a verb, its body, and the id under which the answer is wanted."""

    id: RequestId
    verb: Annotated[str, Meta(pattern=r"^[a-z_]{1,32}$(?!\n)")]
    body: dict[str, Any] = field(default_factory=dict[str, Any])


class UnreadableLine(Struct, frozen=True):
    """A line that is no request: why, and the id where one could be read."""

    id: RequestId | None
    fault: LifebusError


def decode_request(line: bytes | Overlong) -> LineRequest | UnreadableLine:
    """Return the request on a line, read as strictly as every message of the bus, or why there is none."""
    if isinstance(line, Overlong):
        detail = f"line of {line.size} bytes; the limit is {MAX_LINE}"
        return UnreadableLine(None, InvalidRequest(detail, code="too_large", field="$"))
    plain: Any = None
    try:
        # The line's length bounds its items: a limit of its own would refuse bodies that the wire takes.
        plain = load_json(line, max_bytes=MAX_LINE, max_items=MAX_LINE)
        return validate(plain, LineRequest)
    except InvalidRequest as fault:
        return UnreadableLine(_id_of(plain), fault)


def encode_body(verb: Verb, body: dict[str, Any]) -> bytes:
    """Return a body as the broker takes it: what is JSON of its own there becomes a byte string."""
    if verb.embedded is not None:
        entries, key = verb.embedded
        if isinstance(body.get(entries), list):
            body = {**body, entries: [_with_bytes(entry, key) for entry in body[entries]]}
    return encode_msgpack(body)


def wait_of(verb: Verb, body: dict[str, Any]) -> float:
    """Return how many seconds the body asks the broker to wait before it answers."""
    if verb.wait_key is None:
        return 0.0
    usual = next(one.default for one in structs.fields(verb.body) if one.encode_name == verb.wait_key)
    wait_ms = body.get(verb.wait_key, usual)
    return wait_ms / 1000 if isinstance(wait_ms, int) and 0 <= wait_ms <= _MAX_WAIT_MS else 0.0


def encode_line(message: dict[str, object]) -> bytes:
    """Return a message as one line of JSON with its newline; keys keep their order."""
    return _JSON.encode(message) + b"\n"


def encode_answer(request: RequestId, answer: object) -> bytes:
    """Return the line of an answer; byte strings in it are JSON documents and stand there verbatim."""
    return encode_line({"id": request, "ok": _embedded(answer)})


def encode_local_answer(request: RequestId, answer: object) -> bytes:
    """Return the line of an answer that no broker has bounded.

    Raises:
        LifebusError: `file_too_large`: it is longer than a line may be.
    """
    line = encode_answer(request, answer)
    if len(line) > MAX_LINE:
        raise file_fault(
            f"the answer would be a line of {len(line)} bytes; the limit is {MAX_LINE}", code="file_too_large"
        )
    return line


def encode_refusal(request: RequestId | None, fault: LifebusError) -> bytes:
    """Return the line of a refusal; without an id where the request could not be read."""
    return encode_line({"id": request, "refused": RefusalInfo.of(fault)})


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


def _with_bytes(entry: Any, key: str) -> Any:
    """Return an entry with its object under the key as bytes; entries of another kind may have a number there."""
    if not isinstance(entry, dict):
        return entry
    fields = cast("dict[str, Any]", entry)
    return {**fields, key: _JSON.encode(fields[key])} if isinstance(fields.get(key), dict) else fields


def _id_of(plain: Any) -> RequestId | None:
    """Return the id of a request that is wrong elsewhere."""
    try:
        found: RequestId = msgspec.convert(plain["id"], RequestId)
    except (TypeError, KeyError, msgspec.ValidationError):
        return None
    return found
