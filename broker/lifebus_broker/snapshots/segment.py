"""A segment of the log: its hash, and where it stops being what it was (docs/ledger.md, "Cold boot")."""

from collections.abc import Iterator
from hashlib import sha256

import msgspec
from msgspec import Struct

from lifebus_broker.ledger.log import LogLine, LogSource, encode_line
from lifebus_broker.snapshots.supplement import DIGEST_BYTES, Supplement, line_digest
from lifebus_broker.state.stores import Stores, reduce_event
from lifebus_contract import LifebusError


class BadLine(ValueError):
    """The first line of a segment that is not what it was: `position`, and in the text what is wrong with it."""

    def __init__(self, position: int, detail: str) -> None:
        super().__init__(detail)
        self.position = position


class _Keyed(Struct, frozen=True):
    """What of a receipt says whether a digest belongs to it."""

    idempotency_key: str | None


class _Scope(Struct, frozen=True):
    """What of a receipt says which stream it belongs to."""

    adapter_id: str
    harness_session_id: str | None


_KEYED = msgspec.json.Decoder(_Keyed)
_SCOPE = msgspec.json.Decoder(_Scope)


def read_segment(source: LogSource, after: int, through: int) -> Iterator[LogLine]:
    """Yield every line above `after` up to `through`, each of them the next one.

    Raises:
        BadLine: one is missing, stands in the wrong place or cannot be read.
    """
    expected = after + 1
    try:
        for line in source.lines(after, through):
            if line.position != expected:
                raise BadLine(expected, f"the line at its place says that it is {line.position}")
            yield line
            expected += 1
    # BadLine is a ValueError, too; it names its line already.
    except (LifebusError, ValueError) as fault:
        if isinstance(fault, BadLine):
            raise
        raise _unreadable(source, expected, through, fault) from fault
    if expected <= through:
        raise BadLine(expected, "the line is missing")


def hash_segment(source: LogSource, after: int, through: int) -> str:
    """Return the SHA-256 of the exact JSON lines above `after` up to `through`.

    Raises:
        BadLine: as `read_segment`.
    """
    hashed = sha256()
    for line in read_segment(source, after, through):
        hashed.update(encode_line(line))
    return hashed.hexdigest()


def first_bad_line(stores: Stores, source: LogSource, through: int) -> BadLine | None:
    """Return the first line that does not follow from those before it; `stores` are those before all, and change.

    None where every line follows: then whoever changed one linked anew all that came after it in its stream.
    """
    try:
        for line in read_segment(source, stores.position, through):
            # The link of a line does not cover its digest.
            _check_digest(line)
            reduce_event(stores, line)
    except BadLine as fault:
        return fault
    except LifebusError as fault:
        return BadLine(stores.position + 1, fault.detail)
    return None


def first_changed_line(source: LogSource, supplement: Supplement, through: int) -> BadLine | None:
    """Return the first line that is another one than at the save, None where each that has a digest is as it was."""
    digests, size = supplement.digests, DIGEST_BYTES
    try:
        for line in read_segment(source, supplement.first - 1, through):
            at = (line.position - supplement.first) * size
            if line_digest(encode_line(line)) != digests[at : at + size]:
                return BadLine(line.position, f"the line{_stream_of(line)} is not the one that was saved")
    except BadLine as fault:
        return fault
    return None


def _stream_of(line: LogLine) -> str:
    """Return in words which stream a line belongs to; nothing where it holds no receipt."""
    try:
        scope = _SCOPE.decode(line.receipt)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    session = "receipts without a session" if scope.harness_session_id is None else scope.harness_session_id[:128]
    return f" of the stream {scope.adapter_id}/{session}"


def _check_digest(line: LogLine) -> None:
    """Check that a digest stands where the receipt has a key, and nowhere else."""
    try:
        keyed = _KEYED.decode(line.receipt).idempotency_key is not None
    except (msgspec.DecodeError, UnicodeError) as fault:
        raise BadLine(line.position, f"does not hold a receipt: {str(fault)[:200]}") from None
    if keyed != (line.digest is not None):
        raise BadLine(line.position, "its digest does not belong to its receipt")


def _unreadable(source: LogSource, after: int, through: int, fault: LifebusError | ValueError) -> BadLine:
    """Return the first line that cannot be read; sources read many at a time, and complain about all of them."""
    # One by one: the source reads many at a time and cannot say which one it was.
    for position in range(after, through + 1):
        try:
            found = [line.position for line in source.lines(position - 1, position)]
        except (LifebusError, ValueError) as own:
            return BadLine(position, _detail(own))
        if found != [position]:
            return BadLine(position, "the line is missing")
    return BadLine(after, _detail(fault))


def _detail(fault: LifebusError | ValueError) -> str:
    return fault.detail if isinstance(fault, LifebusError) else str(fault)
