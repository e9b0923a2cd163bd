"""One request to the broker as a line of JSON, and its answer, by built-in modules alone (docs/wire-protocol.md)."""

import posix
import sys
from _socket import AF_UNIX, SOCK_STREAM, SOL_SOCKET, socket

_MAX_ANSWER = 16 * 1_048_576
_NOBODY = 0o077


def ask_line(directory: str, request: bytes, seconds: float = 5.0) -> bytes | None:
    """Send a request on one line; return the line that answers it, empty where none came.

    None where nothing was sent: no broker of this user listens there.
    """
    broker = _connected(directory, seconds)
    if broker is None:
        return None
    answer = b""
    try:
        broker.sendall(request + b"\n")
        while not answer.endswith(b"\n") and len(answer) <= _MAX_ANSWER and (chunk := broker.recv(65_536)):
            answer += chunk
    except OSError:  # gone, or too slow: what became of the request is not known
        return b""
    finally:
        broker.close()
    return answer if answer.endswith(b"\n") else b""


def _connected(directory: str, seconds: float) -> "socket | None":
    """Return a connection to the broker of this user, None where there is none."""
    broker = socket(AF_UNIX, SOCK_STREAM)
    try:
        found = posix.stat(directory)
        if found.st_uid == posix.geteuid() and not found.st_mode & _NOBODY:
            broker.settimeout(seconds)
            broker.connect(f"{directory}/lines.sock")
            if _is_ours(broker):
                return broker
    except OSError:
        pass  # the usual way says what is wrong
    broker.close()
    return None


def _is_ours(broker: "socket") -> bool:
    """Whether the broker is of this user, where the kernel says so (Linux); elsewhere the directory's mode does."""
    try:
        from _socket import SO_PEERCRED  # noqa: PLC0415
    except ImportError:
        return True
    uid = int.from_bytes(broker.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)[4:8], sys.byteorder)
    return uid == posix.geteuid()
