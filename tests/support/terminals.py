"""A program on a terminal of its own, and somebody who presses Ctrl-C there."""

import os
import pty
import select
import time
from collections.abc import Mapping, Sequence

from support.patience import PATIENCE_S


def interrupted(words: Sequence[str], environment: Mapping[str, str], last: bytes) -> tuple[int, bytes]:
    """Press Ctrl-C when a program shows `ready`, type `one` and `two` when it shows `got`; wait for its `last` word.

    Returns its exit code and all that it showed.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(words[0], list(words), environment)
    os.set_blocking(terminal, False)
    shown = _until(terminal, b"", b"ready")
    os.write(terminal, b"\x03")
    shown = _until(terminal, shown, b"got")
    os.write(terminal, b"one\ntwo\n")
    shown = _until(terminal, shown, last)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown


def _until(terminal: int, shown: bytes, word: bytes) -> bytes:
    until = time.monotonic() + PATIENCE_S
    while word not in shown and select.select([terminal], [], [], max(0, until - time.monotonic()))[0]:
        shown += os.read(terminal, 1024)
    assert word in shown, shown
    return shown
