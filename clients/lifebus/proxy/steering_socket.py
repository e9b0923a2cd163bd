"""The way by which the observer has lines sent to the server: one datagram a command, one a reply.

The proxy keeps both ends, so that nothing ends here where an observer dies; the next one uses the same way.
"""

import os
import struct

TYPE_CHECKING = False  # `typing` costs more than all the rest
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket  # `socket` itself would import `enum` and `selectors`

COMMAND = struct.Struct("=QqQH")
"""A command: its number, position, deadline, and the length of the id that follows; the rest is the line.

The position is how many bytes the client had sent when it was decided, -1 where that does not matter.  The deadline is
in milliseconds of the monotonic clock.  The id is that of a request, empty where the line is none.
"""

REPLY = struct.Struct("=QBQ")
"""A reply: the command's number, what became of it, and how many bytes have passed to the server by now."""

SENT, MOVED, LATE, BUSY = 1, 2, 3, 4
"""What became of a command: sent; not sent, because the client has said more, the time was over, too much waits."""

ANY_POSITION = -1

MAX_LINE_BYTES = 131_072
"""The longest line that is sent, its newline included."""

_BUFFER_BYTES = 262_144


class SteeringCommand:
    """A line to be sent, and under which conditions."""

    def __init__(self, number: int, position: int, deadline_ms: int, request_id: str, line: bytes) -> None:
        self.number = number
        self.position = position
        self.deadline_ms = deadline_ms
        self.request_id = request_id
        self.line = line


class SteeringSocket:
    """Both ends of the way: `descriptor` is ours, `observer` the observer's."""

    def __init__(self) -> None:
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in ends:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self.descriptor, self.observer = (end.detach() for end in ends)

    def receive(self) -> SteeringCommand | None:
        """Return the next command; None where there is none, or one that is not whole."""
        try:
            data = os.read(self.descriptor, COMMAND.size + MAX_LINE_BYTES + 256)
        except OSError:
            return None
        return read_command(data)

    def reply(self, number: int, outcome: int, position: int) -> None:
        """Say what became of a command; an observer that is gone is not waited for."""
        try:
            os.write(self.descriptor, REPLY.pack(number, outcome, position))
        except OSError:
            return


def read_command(data: bytes) -> SteeringCommand | None:
    """Return the command that a datagram holds; None where it holds no whole one."""
    if len(data) < COMMAND.size:
        return None
    number, position, deadline_ms, length = COMMAND.unpack_from(data)
    request_id = data[COMMAND.size : COMMAND.size + length]
    line = data[COMMAND.size + length :]
    # One line and no more: what stands behind a newline would be a second message.
    if not line or line.find(b"\n") != len(line) - 1 or len(line) > MAX_LINE_BYTES or not request_id.isascii():
        return None
    return SteeringCommand(number, position, deadline_ms, request_id.decode(), line)


def write_command(command: SteeringCommand) -> bytes:
    """Return the datagram of a command."""
    request_id = command.request_id.encode()
    head = COMMAND.pack(command.number, command.position, command.deadline_ms, len(request_id))
    return head + request_id + command.line
