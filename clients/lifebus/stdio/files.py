"""The files beneath the root that `lifebus dev stdio` was started for; no broker is asked (docs/files.md)."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from lifebus.stdio.bodies import FileBody, ListFiles, WriteFile
from lifebus.stdio.writer import LineWriter
from lifebus.workspace import Workspace
from lifebus_contract import InvalidRequest, validate
from lifebus_transports.framing.json_lines import MAX_LINE, LineRequest, encode_local_answer


class RootFiles:
    """Serves `read`, `write`, `exists`, `list` and `delete`.  Without a root each is refused with `no_root`.

    Raises:
        LifebusError: `no_root` where the root cannot be opened.
    """

    def __init__(self, root: Path | None, lines: LineWriter) -> None:
        # More than a line's length never fits into one.
        self._files = None if root is None else Workspace(root, max_file_bytes=MAX_LINE)
        self._lines = lines

    def close(self) -> None:
        """Close the root."""
        if self._files is not None:
            self._files.close()

    def handlers(self) -> dict[str, Callable[[LineRequest], Awaitable[None]]]:
        """Return what serves each verb of files."""
        return {
            "read": self._read,
            "write": self._write,
            "exists": self._exists,
            "list": self._list,
            "delete": self._delete,
        }

    async def _read(self, request: LineRequest) -> None:
        path = validate(request.body, FileBody).path
        await self._put(request, {"content": await self._workspace.read(path)})

    async def _write(self, request: LineRequest) -> None:
        body = validate(request.body, WriteFile)
        written = await self._workspace.write(body.path, body.content)
        await self._put(request, {"byte_size": written.byte_size, "digest": written.digest})

    async def _exists(self, request: LineRequest) -> None:
        path = validate(request.body, FileBody).path
        await self._put(request, {"exists": await self._workspace.exists(path)})

    async def _list(self, request: LineRequest) -> None:
        directory = validate(request.body, ListFiles).directory
        await self._put(request, {"names": await self._workspace.list(directory)})

    async def _delete(self, request: LineRequest) -> None:
        await self._workspace.delete(validate(request.body, FileBody).path)
        await self._put(request, {})

    async def _put(self, request: LineRequest, answer: dict[str, object]) -> None:
        await self._lines.put(encode_local_answer(request.id, answer))

    @property
    def _workspace(self) -> Workspace:
        if self._files is None:
            detail = "no root for files was given; start it as `lifebus dev stdio --root DIRECTORY`"
            raise InvalidRequest(detail, code="no_root")
        return self._files
