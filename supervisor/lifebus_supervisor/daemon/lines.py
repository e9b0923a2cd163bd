"""The line socket of a broker: one request a connection, as a line of JSON, through the API."""

from pathlib import Path
from typing import Any, Final

from anyio.abc import TaskStatus

from lifebus_contract.fields import Document
from lifebus_supervisor.api.api import Api
from lifebus_transports.hooks.line_server import serve_lines

SOCKET: Final = "lines.sock"
"""The name of the line server's socket in the runtime directory."""


class _LinePeer:
    """A connection that brings one request; it is there for its answer alone."""

    is_operator = True
    """Only processes of the broker's own user are served, and each of them may do what the user may."""

    @property
    def identity(self) -> "_LinePeer":
        return self

    def send(self, number: int, verb: str, body: object) -> bool:  # noqa: ARG002  nothing follows an answer here
        return False


async def open_line_socket(api: Api, directory: Path, *, task_status: TaskStatus[None]) -> None:
    """Serve the line socket in the runtime directory until cancelled.

    Raises:
        LifebusError: `socket_path_too_long`.
        OSError: the socket cannot be bound.
    """

    async def call(verb: str, body: Document) -> Any:
        return await api.call(_LinePeer(), verb, body)

    path = directory / SOCKET
    try:
        await serve_lines(path, call, task_status=task_status)
    finally:
        path.unlink(missing_ok=True)
