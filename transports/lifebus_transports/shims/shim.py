"""The parent of commands, one at a time: reads a command from its owner, runs it to its end, says how it ended.

As descendants whose parents end become its children, it finds what a command has started also where that left the
command's session.  The owner's end is the end of the command and of the shim.
"""

import os
import signal
from typing import Final

from lifebus_transports.shims.command import Command
from lifebus_transports.shims.kernel import adopt_orphans, name_process
from lifebus_transports.shims.owner_channel import OwnerChannel

_NOT_OURS: Final = frozenset({signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD})
_HELD_OFF: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def main() -> None:
    """Serve the owner, whose channel is our stdin, as long as it lives."""
    os.setsid()  # what ends the owner's group, as Ctrl-C does, must not end commands without their grace
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # or what the owner's caller gave it would stay open with us
    os.chdir("/")
    name_process("lifebus-shim")
    adopts = adopt_orphans()
    channel = OwnerChannel(os.dup(0))
    # The number 0 stays taken: no pipe of a command may get it.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    wakeup = _watch_signals()
    while command := channel.next_command():
        channel.send({"taken": True})
        ended = Command(channel, wakeup, adopts=adopts).run(command)
        channel.send({"fault": ended} if "stage" in ended else {"end": ended})


def _watch_signals() -> int:
    """Return a descriptor that is readable after each end of a child; signals that would end us do nothing."""
    for number in signal.valid_signals() - _NOT_OURS:
        # What is ignored would be ignored in commands; a handler's signal is theirs to decide.
        if number in _HELD_OFF:
            signal.signal(number, _do_nothing)
        elif signal.getsignal(number) is signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, _do_nothing)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _do_nothing(_number: int, _frame: object) -> None:
    """Leave it to the wakeup descriptor."""
