"""A program on a terminal of its own, and somebody who presses Ctrl-C there."""

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from support.patience import PATIENCE_S

_LISTENER = """
import signal, sys
awaited = {{signal.Signals({number})}}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
signal.signal({number}, lambda *_: print("got", flush=True))
print("ready", flush=True)
signal.sigwait(awaited)
print("got", flush=True)
signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
for line in sys.stdin:
    print("read", line, end="", flush=True)
sys.exit(7)
"""


def listener(number: signal.Signals) -> tuple[str, ...]:
    """A program that shows `ready`, `got` for each such signal and then what it reads; it exits with 7.

    A shell's trap does not do: a signal that comes between its look for signals and its read waits for a line.
    """
    return (sys.executable, "-I", "-S", "-u", "-c", _LISTENER.format(number=int(number)))


def interrupted(words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, bytes]:
    """Press Ctrl-C when a `listener` shows `ready`, type two lines and the end when it shows `got`.

    Returns its exit code and all that it showed.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(words[0], list(words), environment)
    os.set_blocking(terminal, False)
    try:
        shown = _until(terminal, b"", b"ready")
        os.write(terminal, b"\x03")
        shown = _until(terminal, shown, b"got")
        os.write(terminal, b"one\ntwo\n\x04")
        shown = _until(terminal, shown, b"read two")
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown


def _until(terminal: int, shown: bytes, word: bytes) -> bytes:
    until = time.monotonic() + PATIENCE_S
    while word not in shown and select.select([terminal], [], [], max(0, until - time.monotonic()))[0]:
        shown += os.read(terminal, 1024)
    assert word in shown, shown
    return shown
