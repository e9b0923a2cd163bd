"""Who is at the other end of a Unix stream socket, as the kernel reports it (docs/reliability.md T2)."""

import os
import socket
import struct
from typing import Final, Protocol

# Linux `struct ucred`: pid, uid, gid
_UCRED: Final = struct.Struct("=iII")

# The start of macOS `struct xucred`: version, uid; the groups follow
_XUCRED: Final = struct.Struct("=II")

# Linux has it, macOS has `LOCAL_PEERCRED` at level `SOL_LOCAL`, which Python does not name
_PEERCRED: Final[int | None] = getattr(socket, "SO_PEERCRED", None)

_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1


class PeerSocket(Protocol):
    """The two methods that are needed here: of a socket, or of what a framework shows of it."""

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        ...

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        """Return the raw value of a socket option."""
        ...


def peer_uid(connection: PeerSocket) -> int | None:
    """Return the user id of the process that connected, or None where the system does not say."""
    try:
        if _PEERCRED is not None:
            return int(_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, _PEERCRED, _UCRED.size))[1])
        return int(_XUCRED.unpack_from(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 128))[1])
    except (OSError, struct.error):
        return None


def peer_pid(connection: PeerSocket) -> int | None:
    """Return the id of the process that connected, or None where the system does not say (only Linux does)."""
    # macOS gives no process id by this option.
    if _PEERCRED is None:
        return None
    try:
        pid = int(_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, _PEERCRED, _UCRED.size))[0])
    except (OSError, struct.error):
        return None
    return pid or None  # 0 is a process of a place that we cannot see into


def is_same_user(connection: PeerSocket) -> bool:
    """Whether the peer runs as we do; no when the system does not say."""
    return peer_uid(connection) == os.geteuid()
