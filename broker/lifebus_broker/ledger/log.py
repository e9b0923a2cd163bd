"""The event log: one line a receipt, and where lines are read from.  Pure.

As JSON lines a log is the same wherever it comes from, a ledger file or an export, and every line is canonical JSON.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol, Self

import msgspec
from msgspec import Struct

from lifebus_broker.state.sealed import SealedItems
from lifebus_broker.state.stream_digests import Stream, StreamKey

if TYPE_CHECKING:
    from lifebus_broker.ports import Record  # which names `LedgerLog` as what a ledger lends

_HEX_BYTES: Final = 64


class LogLine(Struct, frozen=True):
    """One event of the log.  `receipt` holds the canonical bytes as they are stored.

    `link` is sha256(previous link of the stream ‖ receipt) as hex; `digest` is the content digest that the receipt's
    idempotency key stands for, as hex, null where it has no key.
    """

    position: int
    digest: str | None
    link: str
    receipt: bytes


class _Read(Struct, frozen=True, forbid_unknown_fields=True):
    """A line as JSON, its receipt still as text."""

    digest: str | None
    link: str
    position: int
    receipt: msgspec.Raw


_DECODER: Final = msgspec.json.Decoder(_Read)


def encode_line(line: LogLine) -> bytes:
    """Return the line as canonical JSON with its newline; the receipt's bytes stand in it as they are."""
    digest = "null" if line.digest is None else f'"{line.digest}"'
    head = f'{{"digest":{digest},"link":"{line.link}","position":{line.position},"receipt":'
    return b"".join((head.encode(), line.receipt, b"}\n"))


def decode_line(data: bytes) -> LogLine:
    """Return the line that the bytes hold, with its newline.

    Raises:
        ValueError: the bytes are not exactly what `encode_line` writes.
    """
    try:
        read = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise ValueError(f"not a line of a log: {str(fault)[:200]}") from None
    line = LogLine(read.position, read.digest, read.link, bytes(read.receipt))
    # encoded again and compared: two texts of one line would make two hashes of one log
    digest_is_hex = line.digest is None or _is_hex(line.digest, 2 * 16)
    if not digest_is_hex or not _is_hex(line.link, _HEX_BYTES) or line.position < 1 or encode_line(line) != data:
        raise ValueError("not a line of a log: its form is not the canonical one")
    return line


class LinkedRecord(Struct, frozen=True):
    """A record of the journal and its link, which stands for every record of its stream up to it."""

    record: "Record"
    link: bytes


class LogSource(Protocol):
    """Somewhere to read a log from.  Every method blocks: run it in a thread.

    `floor` is the newest position that was pruned, 0 while nothing was; `head` the newest one there is.
    """

    @property
    def floor(self) -> int:
        """The position after which the lines begin."""
        ...

    @property
    def head(self) -> int:
        """The position of the last line, `floor` when there is none."""
        ...

    def base(self) -> bytes | None:
        """Return the canonical dump of the stores after `floor`, None where nothing was pruned."""
        ...

    def lines(self, after: int, through: int) -> Iterator[LogLine]:
        """Return the lines with positions above `after` up to `through`, in order."""
        ...

    def records(self, prefix: str) -> Iterator["Record"]:
        """Return the kept notes of the streams whose name begins with `prefix`, by stream and number.

        Each continues the hash chain of its stream, as in `chain`.
        """
        ...

    def chain(self, stream: str) -> Iterator[LinkedRecord]:
        """Return the kept notes of one stream with their links, by number; none where there is no such stream.

        Raises:
            LifebusError: a note does not continue the hash chain of those before it; its number is named.
        """
        ...


class LedgerLog(LogSource, Protocol):
    """The log of a ledger while that is written: what `LogSource` says is as of the moment of asking.

    Used by one thread at a time.  A context manager, which closes it.
    """

    @property
    def epoch(self) -> str:
        """The random id of this history, as 32 hex digits."""
        ...

    def newest(self) -> dict[StreamKey, Stream]:
        """Return where every stream is, as of one moment, from the ledger's own tables."""
        ...

    def new_sealed_items(self) -> SealedItems:
        """Return an empty place for what is kept of sessions that ended, outside of memory where there is one."""
        ...

    def close(self) -> None:
        """Release what was opened."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def _is_hex(text: str, digits: int) -> bool:
    """Whether the text is at least so many lower-case hex digits."""
    return len(text) >= digits and set(text) <= set("0123456789abcdef")
