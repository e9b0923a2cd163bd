"""The archive of a campaign: all that a cold boot needs, in one file with the same bytes each time (docs/ledger.md).

It is a tar archive of exactly the members of `MEMBERS` in their order, none of them compressed, with nothing of the
time or the machine in their headers.  An archive that differs from that in one byte is refused.  Nothing is ever
unpacked: members are read in place.
"""

import tarfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

from lifebus_broker.canonical_json import canonical, sha256_hex
from lifebus_broker.exports.jsonl_log import FileSlice, JsonlLog
from lifebus_contract import InvalidRequest, LifebusError

FORMAT: Final = "lifebus-campaign/1"
"""What the manifest calls this form."""

SNAPSHOT: Final = "snapshot.json"
"""The snapshot."""

PINS: Final = "pins.json"
"""Its pins, for people and other programs."""

COMPACTIONS: Final = "compactions.jsonl"
"""The compactions that it names, one a line."""

LEDGER: Final = "ledger.jsonl"
"""The export of the whole ledger."""

MANIFEST: Final = "manifest.json"
"""Size and SHA-256 of each member before it."""

_MIB: Final = 1_048_576
MEMBERS: Final[Mapping[str, int]] = {
    SNAPSHOT: 64 * _MIB,
    PINS: _MIB,
    COMPACTIONS: 2**40,
    LEDGER: 2**40,
    MANIFEST: _MIB,
}
"""The members in their order, and how large each may be at most, in bytes."""

_MAX_COMPACTION: Final = 1024 * _MIB
# Tar works in blocks of 512 bytes, and ends with two empty ones.
_BLOCK: Final = 512
_END: Final = bytes(2 * _BLOCK)
_CHUNK: Final = _MIB


class _MemberDigest(Struct, frozen=True, forbid_unknown_fields=True):
    """What the manifest says of a member."""

    bytes: int
    sha256: str


class _Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest; the fields in the order of their names."""

    files: dict[str, _MemberDigest]
    format: str


class ArchiveWriter:
    """Writes an archive into an empty file that can be read back: the members in their order, then `finish`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sums: dict[str, _MemberDigest] = {}

    def put(self, name: str, content: bytes) -> None:
        """Write a member whole."""
        with self.member(name) as write:
            write(content)

    @contextmanager
    def member(self, name: str) -> Generator[Callable[[bytes], object]]:
        """Yield what writes a member piece by piece; its size need not be known before."""
        start, hashed = self._file.tell(), sha256()
        # Room for the header, which is written last: it holds the size.
        self._file.write(bytes(_BLOCK))

        def write(data: bytes) -> None:
            hashed.update(data)
            self._file.write(data)

        yield write
        # The size is known only now; the header goes into the room that was left.
        end = self._file.tell()
        size = end - start - _BLOCK
        self._file.write(bytes(-size % _BLOCK))
        self._file.seek(start)
        self._file.write(_header(name, size))
        self._file.seek(0, 2)
        self._sums[name] = _MemberDigest(size, hashed.hexdigest())

    def finish(self) -> None:
        """Write the manifest and the end."""
        sums = {name: {"bytes": one.bytes, "sha256": one.sha256} for name, one in self._sums.items()}
        self.put(MANIFEST, canonical({"files": dict(sorted(sums.items())), "format": FORMAT}))
        self._file.write(_END)


class Archive(Struct, frozen=True):
    """A archive: the byte range of each member, and what the manifest says of it."""

    path: Path
    parts: dict[str, FileSlice]
    sums: dict[str, _MemberDigest]

    def content(self, name: str) -> bytes:
        """Return a small member whole.

        Raises:
            InvalidRequest: it is not what the manifest says.
        """
        content = b"".join(_chunks(self.parts[name]))
        self._compare(name, sha256_hex(content))
        return content

    def check(self, name: str) -> None:
        """Compare a large member with the manifest.

        Raises:
            InvalidRequest: it is not what the manifest says.
        """
        hashed = sha256()
        for chunk in _chunks(self.parts[name]):
            hashed.update(chunk)
        self._compare(name, hashed.hexdigest())

    def log(self) -> JsonlLog:
        """Return the export as a log; its hash is not compared here, so that a cold boot names the bad position."""
        return JsonlLog(self.parts[LEDGER], sealed=False)

    def compactions(self, offset: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the compactions as they are stored, from an offset on, each with its own."""
        return self.parts[COMPACTIONS].lines(offset, most=_MAX_COMPACTION)

    def _compare(self, name: str, found: str) -> None:
        if found != self.sums[name].sha256:
            raise _damaged(self.path, f"`{name}` is not what the manifest says: another SHA-256")


def is_archive(path: Path) -> bool:
    """Whether a file begins as an archive does.

    Raises:
        LifebusError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(SNAPSHOT) + 1) == SNAPSHOT.encode() + b"\0"
    except OSError as fault:
        raise LifebusError(f"{path}: {fault.strerror}", code="unreadable") from fault


def open_archive(path: Path) -> Archive:
    """Return an archive of which every header, name, size and gap is as it is written; the members are not read.

    Raises:
        InvalidRequest: it is no archive, or not a whole one.
        LifebusError: it cannot be read.
    """
    parts: dict[str, FileSlice] = {}
    try:
        with path.open("rb") as file:
            for name, most in MEMBERS.items():
                parts[name] = _next_part(path, file, name, most)
            if file.read(len(_END) + 1) != _END:
                raise _damaged(path, "after the manifest there is something else than its end")
    except OSError as fault:
        raise LifebusError(f"{path}: {fault.strerror}", code="unreadable") from fault
    archive = Archive(path, parts, {})
    return Archive(path, parts, _read_manifest(archive).files)


def _next_part(path: Path, file: BinaryIO, name: str, most: int) -> FileSlice:
    """Read a header and go behind its member."""
    raw = file.read(_BLOCK)
    try:
        # Only the size is taken from the header; the rest must be what we would write.
        size = tarfile.TarInfo.frombuf(raw, "utf-8", "strict").size
        canonical_header = _header(name, size)
    except (tarfile.HeaderError, ValueError, OverflowError):
        raise _damaged(path, f"it is no archive: the member `{name}` does not stand where it should") from None
    # One header alone is right, so that an archive has one form: no other owner, time, or type of member.
    if canonical_header != raw:
        raise _damaged(path, f"the member `{name}` does not stand where it should, or its header is another")
    if not 0 <= size <= most:
        raise _damaged(path, f"the member `{name}` has {size} bytes, and {most} at most are allowed")
    start = file.tell()
    file.seek(start + size)
    # The padding is checked as well: nothing may hide between members.
    if any(file.read(-size % _BLOCK)) or file.tell() != start + size + -size % _BLOCK:
        raise _damaged(path, f"the member `{name}` is cut off, or something follows it")
    return FileSlice(path, start, size)


def _read_manifest(archive: Archive) -> _Manifest:
    content = b"".join(_chunks(archive.parts[MANIFEST]))
    try:
        manifest = msgspec.json.decode(content, type=_Manifest)
        is_canonical = canonical(msgspec.to_builtins(manifest)) == content
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise _damaged(archive.path, "its manifest cannot be read") from None
    # The manifest cannot name itself.
    sizes = {name: part.size for name, part in archive.parts.items() if name != MANIFEST}
    if not is_canonical or manifest.format != FORMAT:
        raise _damaged(archive.path, "its manifest is of a form that this program does not know")
    if {name: one.bytes for name, one in manifest.files.items()} != sizes:
        raise _damaged(archive.path, "its manifest names other members or other sizes")
    return manifest


def _header(name: str, size: int) -> bytes:
    """Return the one header that a member of this name and size has."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def _chunks(part: FileSlice) -> Iterator[bytes]:
    try:
        with part.path.open("rb") as file:
            file.seek(part.start)
            # Read in pieces: a ledger may be larger than memory.
            left = part.size or 0
            while left:
                chunk = file.read(min(left, _CHUNK))
                if not chunk:
                    return
                left -= len(chunk)
                yield chunk
    except OSError as fault:
        raise LifebusError(f"{part.path}: {fault.strerror}", code="unreadable") from fault


def _damaged(path: Path, why: str) -> InvalidRequest:
    return InvalidRequest(f"{path}: {why}", code="bundle_damaged")
