"""The lines of an export beside those of the log itself, each canonical JSON (docs/ledger.md, "The export").

header      which history this is, and up to where
base        the dump of the stores after the floor, where something was pruned
head        a stream of receipts as its newest pruned receipt left it
tombstone   an idempotency key whose receipt was pruned
(log)       the receipts, as `log.encode_line` writes them
stream      a stream of the journal: its numbers, and the link that its first kept note continues
note        a note of the stream before it
end         how many there are of each, and the hash of every byte before
"""

from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from lifebus_contract.fields import Count

FORMAT: Final = "lifebus-export/1"
"""What the header calls this form."""

_Hex = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{2})+$(?!\n)")]
_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
_Positive = Annotated[int, Meta(ge=1, le=2**53 - 1)]


class _ExportLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the lines; the fields are declared in the order of their names, which is the canonical one."""


class Header(_ExportLine, frozen=True, kw_only=True):
    """The first line.  `reducer` is the version of the reducers that a base can be read by."""

    epoch: Annotated[str, Meta(min_length=1, max_length=256)]
    floor: Count
    format: Literal["lifebus-export/1"] = FORMAT
    head: Count
    reducer: Count


class HeadLine(_ExportLine, frozen=True, kw_only=True):
    """Where a stream of receipts stood at the floor; `session` is empty for receipts without one."""

    adapter_id: Annotated[str, Meta(min_length=1)]
    at_epoch_s: int
    ended: bool
    event: str
    first_position: _Positive
    harness_sequence: int | None
    link: _Hash
    open_frames: tuple[str, ...]
    position: _Positive
    sequence: _Positive | None
    session: str
    started_at_epoch_s: int
    status: str


class TombstoneLine(_ExportLine, frozen=True, kw_only=True):
    """What is left of an idempotency key whose receipt was pruned: the beginnings of two hashes, and since when."""

    digest: _Hex
    key: _Hex
    pruned_at_epoch_s: int


class StreamLine(_ExportLine, frozen=True, kw_only=True):
    """A stream of the journal: its newest number, its newest dropped one, and the link as of that one."""

    floor: Count
    head: Count
    link: _Hash
    stream: Annotated[str, Meta(min_length=1)]


class RecordLine(_ExportLine, frozen=True, kw_only=True):
    """A kept note; `body` is Base64, `link` the link of its stream after it."""

    at_epoch_s: int
    body: str
    link: _Hash
    number: _Positive
    stream: Annotated[str, Meta(min_length=1)]


class Counts(_ExportLine, frozen=True, kw_only=True):
    """How many lines there are of each kind."""

    base: Count = 0
    head: Count = 0
    log: Count = 0
    note: Count = 0
    stream: Count = 0
    tombstone: Count = 0


class End(_ExportLine, frozen=True, kw_only=True):
    """The last line; without it the export is not whole.  `sha256` is that of every byte before this line."""

    counts: Counts
    sha256: _Hash


L = TypeVar("L", bound=_ExportLine)

_NAMES: Final[dict[type[_ExportLine], str]] = {
    Header: "header",
    HeadLine: "head",
    TombstoneLine: "tombstone",
    StreamLine: "stream",
    RecordLine: "note",
    End: "end",
}

ORDER: Final = {
    "header": 0,
    "base": 1,
    "head": 2,
    "tombstone": 3,
    "log": 4,
    "stream": 5,
    "note": 5,
    "end": 6,
}
"""The kinds of lines, and in which order they come; streams and their notes take turns."""

_DECODERS: Final[dict[type[_ExportLine], msgspec.json.Decoder[dict[str, Any]]]] = {
    Header: msgspec.json.Decoder(dict[str, Header]),
    HeadLine: msgspec.json.Decoder(dict[str, HeadLine]),
    TombstoneLine: msgspec.json.Decoder(dict[str, TombstoneLine]),
    StreamLine: msgspec.json.Decoder(dict[str, StreamLine]),
    RecordLine: msgspec.json.Decoder(dict[str, RecordLine]),
    End: msgspec.json.Decoder(dict[str, End]),
}
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_BASE: Final = b'{"base":'


def kind_of(data: bytes) -> str | None:
    """Return what a line says that it is, None where that is nothing known; looks at its first bytes only."""
    # The first key says the kind, so that a pass over the file decodes nothing.
    name = data[2 : data.find(b'"', 2, 16)].decode("ascii", "replace")
    # A receipt's line has no kind of its own: it is as the log encodes it.
    kind = "log" if name == "digest" else name
    return kind if kind in ORDER else None


def encode(line: _ExportLine) -> bytes:
    """Return the line with its newline."""
    return _ENCODER.encode({_NAMES[type(line)]: line}) + b"\n"


def decode(data: bytes, kind: type[L]) -> L:
    """Return the line of this kind that the bytes hold, with its newline.

    Raises:
        ValueError: the bytes are not exactly what `encode` writes.
    """
    try:
        line: L = _DECODERS[kind].decode(data)[_NAMES[kind]]
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError) as fault:
        raise ValueError(f"no line of an export: {str(fault)[:200]}") from None
    # Only the canonical form: a hash of the text is then a hash of the values.
    if encode(line) != data:
        raise ValueError("no line of an export: its form is not the canonical one")
    return line


def encode_base(dump: bytes) -> bytes:
    """Return the line that holds the canonical dump of the stores as it is."""
    return b"".join((_BASE, dump, b"}\n"))


def decode_base(data: bytes) -> bytes:
    """Return the dump of the stores that the line holds.

    Raises:
        ValueError: it is not one canonical JSON document.
    """
    try:
        dump = bytes(msgspec.json.decode(data, type=dict[str, msgspec.Raw])["base"])
        plain: Any = msgspec.json.decode(dump)
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError) as fault:
        raise ValueError(f"no base: {str(fault)[:200]}") from None
    # The dump is kept as raw text; this proves that the text is canonical.
    if encode_base(dump) != data or msgspec.json.encode(plain, order="sorted") != dump:
        raise ValueError("no base: its form is not the canonical one")
    return dump


def text_of(body: bytes) -> str:
    """Return the body of a note as a line holds it."""
    return b64encode(body).decode()


def body_of(text: str) -> bytes:
    """Return the body of a note from its line.

    Raises:
        ValueError: it is not Base64, or not in its one form.
    """
    try:
        # Strict mode still accepts padding bits that are not zero, hence the comparison below.
        body = a2b_base64(text, strict_mode=True)
    except Base64Error as fault:
        raise ValueError(f"no note: {fault}") from None
    if text_of(body) != text:
        raise ValueError("no note: its Base64 is not the canonical one")
    return body
