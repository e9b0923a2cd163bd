"""The files beneath one root: read, write, exists, list, delete, digest; nothing outside it can be reached."""

import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from msgspec import Struct

from lifebus_contract import InvalidRequest
from lifebus_transports.workspace.changes import FileChanges
from lifebus_transports.workspace.faults import file_fault, path_fault
from lifebus_transports.workspace.opening import OpenDirectory, best_opening
from lifebus_transports.workspace.paths import BeneathPath, is_unfinished, parse_file_path, parse_path
from lifebus_transports.workspace.whole_files import look_at, open_file, remove_left_over, write_whole

MAX_FILE_BYTES: Final = 16 * 1_048_576
"""Largest file that is read or written at once, in bytes."""

MAX_DIGEST_BYTES: Final = 64 * 1_073_741_824
"""Largest file whose digest is made, in bytes."""

MAX_ENTRIES: Final = 65_536
"""Most names of a directory that is listed."""

DigestAlgorithm = Literal["sha256", "sha384", "sha512"]
"""Algorithms of digests."""

_CHUNK: Final = 1_048_576
_MAX_PREPARED: Final = 1_024
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FileDigest(Struct, frozen=True):
    """What a file was when it was read: its size, and its digest as `algorithm:hex`."""

    byte_size: int
    digest: str


class WorkspaceFiles:
    """The files beneath a root; close it, or use it in a `with` block.  Any threads may use it at once.

    Paths are relative to the root and use `/`.  Absolute ones, `..`, and whatever leads through a link are refused.
    The root is opened once: if it is renamed, this goes on in the same directory.  Every method may block, and
    raises a `LifebusError`; docs/files.md has the codes.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        max_file_bytes: int = MAX_FILE_BYTES,
        opening: OpenDirectory | None = None,
        changes: FileChanges | None = None,
    ) -> None:
        self.root = Path(root).absolute()
        self.max_file_bytes = max_file_bytes
        try:
            self._root: int | None = os.open(
                self.root, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
            )
        except OSError as fault:
            raise file_fault(f"the root {self.root} cannot be opened: {fault.strerror}", code="no_root") from None
        self._open_directory = opening or best_opening(self._root)
        self._changes = changes or FileChanges()
        self._prepared: set[tuple[int, int]] = set()

    def close(self) -> None:
        """Close the root; nothing can be asked any more."""
        if self._root is not None:
            os.close(self._root)
            self._root = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, path: str) -> str:
        """Return the text of a file, in UTF-8, line ends as they are.

        Raises:
            LifebusError: `no_file`, `not_a_file`, `file_too_large`, `not_text`, or the path is refused.
        """
        try:
            return self.read_bytes(path).decode()
        except UnicodeDecodeError as fault:
            raise file_fault(f"`{path[:256]}` is no UTF-8: its byte {fault.start} is none", code="not_text") from None

    def read_bytes(self, path: str) -> bytes:
        """Return what is in a file.

        Raises:
            LifebusError: as `read`.
        """
        with self._opened(parse_file_path(path)) as (descriptor, found):
            self._check_size(path, found.st_size)
            pieces: list[bytes] = []
            size = 0
            # Files grow while they are read, and those of /proc have no size.
            while piece := os.read(descriptor, _CHUNK):
                pieces.append(piece)
                size += len(piece)
                self._check_size(path, size)
        return b"".join(pieces)

    def digest(self, path: str, algorithm: DigestAlgorithm = "sha256") -> FileDigest:
        """Return the size and the digest, by `algorithm`, of a file of up to 64 GiB.

        Raises:
            LifebusError: as `read`.
        """
        made = hashlib.new(algorithm)
        size = 0
        with self._opened(parse_file_path(path)) as (descriptor, _):
            while piece := os.read(descriptor, _CHUNK):
                made.update(piece)
                size += len(piece)
                self._check_size(path, size, MAX_DIGEST_BYTES)
        return FileDigest(size, f"{algorithm}:{made.hexdigest()}")

    def write(self, path: str, content: str) -> FileDigest:
        """Write a text as UTF-8; see `write_bytes`.

        Raises:
            LifebusError: `not_text` where it holds a lone surrogate; else as `write_bytes`.
        """
        try:
            contents = content.encode()
        except UnicodeEncodeError as fault:
            detail = f"the text for `{path[:256]}` holds a lone surrogate at {fault.start}"
            raise file_fault(detail, code="not_text") from None
        return self.write_bytes(path, contents)

    def write_bytes(self, path: str, contents: bytes) -> FileDigest:
        """Write a file, whole or not at all, and return once it is durable.  Missing directories are made.

        Mode and owner of a file that is there stay; a hard link of it keeps the old contents.

        Raises:
            LifebusError: `not_a_file`, `file_too_large`, `disk_full`, `file_denied`, or the path is refused.
        """
        beneath = parse_file_path(path)
        self._check_size(path, len(contents))
        with self._faults(beneath):
            place = self._prepare(beneath)
            try:
                write_whole(place, beneath.names[-1], contents, self._changes)
            finally:
                os.close(place)
        return FileDigest(len(contents), f"sha256:{hashlib.sha256(contents).hexdigest()}")

    def exists(self, path: str) -> bool:
        """Whether something has this path; with a slash at its end, whether it is a directory.

        Raises:
            LifebusError: the path is refused, also where it leads through a link or is one.
        """
        beneath = parse_path(path)
        with self._faults(beneath):
            if not beneath.names:
                return True
            try:
                place = self._open_directory(self._descriptor, beneath.names[:-1])
            except (FileNotFoundError, NotADirectoryError):
                return False
            try:
                found = look_at(place, beneath.names[-1])
            finally:
                os.close(place)
        return found is not None and (not beneath.of_directory or stat.S_ISDIR(found.st_mode))

    def list(self, directory: str = ".") -> list[str]:
        """Return the names in a directory, sorted; those of files that are being written are left out.

        Raises:
            LifebusError: `no_file`, `not_a_directory`, `not_text` for a name that is no UTF-8, `file_too_large` for
                more than 65,536 names, or the path is refused.
        """
        beneath = parse_path(directory)
        with self._faults(beneath):
            place = self._open_directory(self._descriptor, beneath.names)
            try:
                listing = os.open(".", _DIRECTORY, dir_fd=place)
            finally:
                os.close(place)
            try:
                return sorted(_names(listing, beneath))
            finally:
                os.close(listing)

    def delete(self, path: str) -> None:
        """Remove a file, or an empty directory; that is durable when this returns.

        Raises:
            LifebusError: `no_file`, `not_a_file`, `not_empty`, `file_denied`, or the path is refused.
        """
        beneath = parse_path(path)
        if not beneath.names:
            raise InvalidRequest("the root itself is not deleted", code="path_invalid", field="$.path")
        with self._faults(beneath):
            place = self._open_directory(self._descriptor, beneath.names[:-1])
            try:
                self._remove(place, beneath)
            finally:
                os.close(place)

    def _remove(self, place: int, beneath: BeneathPath) -> None:
        name = beneath.names[-1]
        found = look_at(place, name)
        if found is None:
            raise FileNotFoundError(2, "", name)
        if stat.S_ISDIR(found.st_mode):
            # What a killed writer left there is not shown by `list`, and must not keep the directory from being empty.
            with self._directory(beneath.names) as inner:
                remove_left_over(inner, self._changes)
            self._changes.remove_directory(place, name)
        elif beneath.of_directory:
            raise NotADirectoryError(20, "", name)
        elif not stat.S_ISREG(found.st_mode):
            raise file_fault(f"`{beneath}` is neither a file nor a directory", code="not_a_file")
        else:
            self._changes.unlink(place, name)
        self._changes.sync_directory(place)

    def _prepare(self, beneath: BeneathPath) -> int:
        """Return a descriptor of the directory that a file is written to: made, durable, and free of remains."""
        is_made = False
        try:
            place = self._open_directory(self._descriptor, beneath.names[:-1])
        except FileNotFoundError:
            self._make_directories(beneath.names[:-1])
            is_made = True
            place = self._open_directory(self._descriptor, beneath.names[:-1])
        try:
            found = os.fstat(place)
            known = (found.st_dev, found.st_ino)
            # A directory that was made just now may have the number of one that is gone.
            if is_made or known not in self._prepared:
                remove_left_over(place, self._changes)
                self._sync_way(beneath.names[:-1])
                if len(self._prepared) >= _MAX_PREPARED:
                    self._prepared.clear()
                self._prepared.add(known)
        except BaseException:
            os.close(place)
            raise
        return place

    def _make_directories(self, names: tuple[str, ...]) -> None:
        for depth, name in enumerate(names):
            with self._directory(names[:depth]) as place:
                if look_at(place, name) is None:
                    try:
                        self._changes.make_directory(place, name)
                    except FileExistsError:  # somebody else made it meanwhile; what it is shows when it is opened
                        continue

    def _sync_way(self, names: tuple[str, ...]) -> None:
        """Make each directory on the way durable: whoever made one may have been killed before it was."""
        for depth in range(len(names)):
            with self._directory(names[:depth]) as place:
                self._changes.sync_directory(place)

    @contextmanager
    def _directory(self, names: tuple[str, ...]) -> Generator[int]:
        place = self._open_directory(self._descriptor, names)
        try:
            yield place
        finally:
            os.close(place)

    @contextmanager
    def _opened(self, beneath: BeneathPath) -> Generator[tuple[int, os.stat_result]]:
        """Open a file for reading in the block."""
        with self._faults(beneath):
            with self._directory(beneath.names[:-1]) as place:
                descriptor, found = open_file(place, beneath.names[-1])
            try:
                yield descriptor, found
            finally:
                os.close(descriptor)

    @contextmanager
    def _faults(self, beneath: BeneathPath) -> Generator[None]:
        try:
            yield
        except OSError as fault:
            raise path_fault(fault, beneath) from None

    def _check_size(self, path: str, size: int, limit: int | None = None) -> None:
        limit = self.max_file_bytes if limit is None else limit
        if size > limit:
            detail = f"`{path[:256]}` has more than {limit} bytes, the most that is read or written at once"
            raise file_fault(detail, code="file_too_large")

    @property
    def _descriptor(self) -> int:
        if self._root is None:
            raise file_fault(f"the workspace {self.root} is closed", code="closed")
        return self._root


def _names(listing: int, beneath: BeneathPath) -> Generator[str]:
    with os.scandir(listing) as entries:
        for count, entry in enumerate(entries):
            if count >= MAX_ENTRIES:
                raise file_fault(f"`{beneath}` has more than {MAX_ENTRIES} names", code="file_too_large")
            if is_unfinished(entry.name):
                continue
            try:
                entry.name.encode()
            except UnicodeEncodeError:
                raise file_fault(
                    f"`{beneath}` holds a name that is no UTF-8: {entry.name!a}", code="not_text"
                ) from None
            yield entry.name
