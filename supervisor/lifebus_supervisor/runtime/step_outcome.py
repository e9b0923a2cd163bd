"""How a try ended, in the words of the contract.  Pure."""

import errno
import os
import signal
from typing import Final

from lifebus_contract.flows import Outcome, OutcomeKind
from lifebus_transports.shims.messages import StartFault
from lifebus_transports.signal_names import signal_name

_SHELLS_SIGNALS: Final = 128
"""A shell ends with this and the number of the signal that ended its command."""

_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
_LONGEST_NAME: Final = 256
_NO_PROCESS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_REASONS: Final = {
    "exec": "an argument or variable holds a NUL character",
    "cwd": "it holds a NUL character",
    "launch": "the process that is to watch over it does not stay",
}


def outcome_of(status: int, ended_by: OutcomeKind | None) -> Outcome:
    """Return how a try ended: `status` is an exit code, negative for a signal; `ended_by` says why we ended it."""
    code = status if status >= 0 else None
    number = -status if status < 0 else _signal_in(status)
    if ended_by is not None:
        # In the words alone: what a program ends with when it is told to end is no verdict of its own.
        how = f"exit code {status}" if status >= 0 else signal_name(-status)
        return Outcome(kind=ended_by, detail=f"asked to end, it did with {how}")
    if number is None:
        return Outcome(kind=OutcomeKind.EXITED, code=code)
    return Outcome(kind=OutcomeKind.SIGNALLED, code=code, signal=number, detail=signal_name(number))


def never_started(fault: StartFault, program: str, cwd: str) -> Outcome:
    """Return the outcome of a try whose program was not started; `code` is what a shell would end with."""
    number, code = fault["number"], None
    stage = "launch" if number in _NO_PROCESS else fault["stage"]
    reason = os.strerror(number) if number else _REASONS.get(stage, "the system does not say why")
    match stage:
        case "cwd":
            detail = f"the working directory {_quoted(cwd)} cannot be entered: {reason}"
        case "output" if number == errno.EWOULDBLOCK:
            detail = "something that writes to the same files still runs"
        case "output":
            detail = f"the files for its output cannot be written: {reason}"
        case "limits":
            detail = f"its limits cannot be set: {reason}"
        case "launch":
            detail = f"no process is to be had: {reason}"
        case _:
            code = _NOT_FOUND if number in (errno.ENOENT, errno.ENOTDIR) else _NOT_EXECUTABLE
            detail = f"the program {_quoted(program)} cannot be run: {_reason(number, reason)}"
    return Outcome(kind=OutcomeKind.CANNOT_START, code=code, detail=detail)


def _signal_in(code: int) -> int | None:
    """Return the signal that an exit code stands for, as shells have it."""
    number = code - _SHELLS_SIGNALS
    return number if number in signal.valid_signals() else None


def _reason(number: int, reason: str) -> str:
    if number == errno.ENOENT:
        return f"{reason}, or the interpreter that its first line names"
    if number == errno.ENOEXEC:
        return f"{reason}: a script needs a first line that names its interpreter"
    return reason


def _quoted(name: str) -> str:
    return f"`{name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + '…'}`"
