"""The files beneath a project's root for programs with an event loop (docs/files.md)."""

from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import anyio.to_thread

from lifebus_transports.workspace.workspace import MAX_FILE_BYTES, DigestAlgorithm, FileDigest, WorkspaceFiles

T = TypeVar("T")


class Workspace:
    """The files beneath a root; use it in a `with` or `async with` block.  Safe for many tasks at once.

    Each `path` is relative to the root and uses ``/``.  Absolute paths, ``..``, and paths that lead through a link are
    refused.  `max_file_bytes` limits how much is read or written at once.  `lifebus.blocking.BlockingWorkspace` is the
    same without an event loop.

    Raises:
        LifebusError: `no_root` where the root cannot be opened.
    """

    def __init__(self, root: Path | str, *, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self._files = WorkspaceFiles(root, max_file_bytes=max_file_bytes)

    @property
    def root(self) -> Path:
        """The root, as an absolute path."""
        return self._files.root

    def close(self) -> None:
        """Close the root.  No other method may be called after that."""
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def read(self, path: str) -> str:
        """Return the text of a file, which is in UTF-8; line ends stay as they are.

        Raises:
            LifebusError: `no_file`, `not_a_file`, `file_too_large`, `not_text`, or the path is refused.
        """
        return await anyio.to_thread.run_sync(self._files.read, path)

    async def read_bytes(self, path: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            LifebusError: as for `read`.
        """
        return await anyio.to_thread.run_sync(self._files.read_bytes, path)

    async def write(self, path: str, content: str) -> FileDigest:
        """Write the text `content` completely or not at all; return once it is durable.  Missing directories are made.

        Raises:
            LifebusError: `not_a_file`, `file_too_large`, `not_text`, `disk_full`, or the path is refused.
        """
        return await anyio.to_thread.run_sync(self._files.write, path, content)

    async def write_bytes(self, path: str, contents: bytes) -> FileDigest:
        """Write bytes; see `write`.

        Raises:
            LifebusError: as for `write`.
        """
        return await anyio.to_thread.run_sync(self._files.write_bytes, path, contents)

    async def exists(self, path: str) -> bool:
        """Return whether this path exists; with a slash at its end, whether it is a directory.

        Raises:
            LifebusError: the path is refused, also where it is a link.
        """
        return await anyio.to_thread.run_sync(self._files.exists, path)

    async def list(self, directory: str = ".") -> list[str]:
        """Return the names in a directory, sorted.

        Raises:
            LifebusError: `no_file`, `not_a_directory`, `not_text`, or the path is refused.
        """
        return await anyio.to_thread.run_sync(self._files.list, directory)

    async def delete(self, path: str) -> None:
        """Remove a file, or an empty directory.

        Raises:
            LifebusError: `no_file`, `not_a_file`, `not_empty`, or the path is refused.
        """
        await anyio.to_thread.run_sync(self._files.delete, path)

    async def digest(self, path: str, algorithm: DigestAlgorithm = "sha256") -> FileDigest:
        """Return the size and the digest, by `algorithm`, of a file of up to 64 GiB.

        Raises:
            LifebusError: as for `read`.
        """
        return await anyio.to_thread.run_sync(partial(self._files.digest, path, algorithm))
