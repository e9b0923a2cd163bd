"""Signals that whoever started a process has it ignore, as `nohup` does, and a shell for jobs in the background."""

import signal


def not_ignored(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """Return those of the signals that this process was not told to ignore when it was started.

    A handler for one of the others would have Ctrl-C end a job in the background, and a hang-up one under `nohup`.
    """
    return tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)
