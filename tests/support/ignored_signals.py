"""A suite that runs in the background, or under `nohup`: signals are ignored there, and every command inherits that.

Only what is ignored outlives the start of a program; a handler does not.  So the suite goes on as it was asked to, and
what it starts has its signals as on a terminal.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_INHERITED: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def catch_ignored_signals() -> None:
    """Do nothing when a signal comes that was ignored: programs that are started from here on do not ignore it."""
    for number in _INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _go_on)


@contextmanager
def ignoring(*numbers: signal.Signals) -> Iterator[None]:
    """Ignore signals, as everything does that is started meanwhile: what `nohup` and `&` do to a program."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _go_on(_number: int, _frame: object) -> None:
    """Signal handler: do nothing."""
