"""Exit codes of every command, and which failure leads to which."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from lifebus_contract import LifebusError


class ExitCode(IntEnum):
    """What a command says to the shell (docs/command-line.md has the table)."""

    OK = 0
    NEGATIVE = 1
    """It worked, and the answer is no: not there, invalid, unmet requirement, failed check."""
    USAGE = 2
    RUN_ABORTED = 3
    """The run of a flow was aborted."""
    PERSON_ASKED = 4
    """A run waits for a person, and was not to be followed any longer."""
    RUN_INTERRUPTED = 5
    """Nobody runs the run any more; it can be resumed."""
    BAD_DATA = 65
    """What was given to be sent is against the contract."""
    UNAVAILABLE = 69
    """No broker answers, it is busy, or another one holds the directory."""
    SOFTWARE = 70
    """A defect of lifebus, or an answer of the broker that cannot be read."""
    IO = 74
    """A file cannot be read or written, or the ledger failed."""
    CONFIGURATION = 78
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class UsageError(Exception):
    """The command line does not say something that can be done (exit code 2)."""


class NotThere(Exception):
    """What was asked for is not there (exit code 1); `then` says what to do."""

    def __init__(self, detail: str, then: str) -> None:
        super().__init__(detail)
        self.then = then


_BY_FAILURE: Final = {
    "invalid_request": ExitCode.BAD_DATA,
    "payload_too_large": ExitCode.BAD_DATA,
    "transport_error": ExitCode.UNAVAILABLE,
    "timeout": ExitCode.UNAVAILABLE,
    "internal_error": ExitCode.SOFTWARE,
}
_NOT_FOUND: Final = frozenset(
    {
        *("no_session", "no_position", "no_run", "no_step", "no_output", "no_question", "no_job", "no_approval"),
        *("no_cursor", "no_such_subscription", "no_snapshot", "no_compaction", "unknown_extension"),
    }
)
"""Codes that say that what was asked about is not there, which is an answer."""

_BY_CODE: Final = {
    **dict.fromkeys(_NOT_FOUND, ExitCode.NEGATIVE),
    "configuration": ExitCode.CONFIGURATION,
    "manifest_unreadable": ExitCode.CONFIGURATION,
    "manifest_invalid": ExitCode.CONFIGURATION,
    "duplicate_adapter": ExitCode.CONFIGURATION,
    "socket_path_too_long": ExitCode.CONFIGURATION,
    "directory_owner": ExitCode.CONFIGURATION,
    "directory_mode": ExitCode.CONFIGURATION,
    "directory_unusable": ExitCode.CONFIGURATION,
    "foreign_broker": ExitCode.CONFIGURATION,
    "foreign_file": ExitCode.CONFIGURATION,
    "ledger_file_system": ExitCode.CONFIGURATION,
    "not_a_socket": ExitCode.CONFIGURATION,
    "already_running": ExitCode.UNAVAILABLE,
    "unreadable": ExitCode.IO,
    "no_root": ExitCode.IO,
    "file_denied": ExitCode.IO,
    "checkpoint_damaged": ExitCode.IO,
    "ledger_failed": ExitCode.IO,
    "ledger_damaged": ExitCode.IO,
    "row_damaged": ExitCode.IO,
    "log_broken": ExitCode.IO,
    "dump_broken": ExitCode.IO,
    "state_damaged": ExitCode.IO,
    "ledger_format": ExitCode.IO,
}


_CANDIDATES: Final = 8


def ambiguous(word: str, what: str, candidates: Sequence[str]) -> UsageError:
    """Return the refusal of a beginning that several ids have, with those that may be meant."""
    rest = len(candidates) - _CANDIDATES
    more = f" and {rest} more" if rest > 0 else ""
    shown = ", ".join(candidates[:_CANDIDATES])
    return UsageError(f"`{word[:64]}` is the beginning of several {what}: {shown}{more}; write more of it")


def exit_code_of(fault: LifebusError) -> ExitCode:
    """Return the exit code of an error; refusals that are a fact about the world count as a negative answer."""
    # The code is more precise than the class: a wrong setting is no invalid request.
    if fault.code in _BY_CODE:
        return _BY_CODE[fault.code]
    return _BY_FAILURE.get(fault.failure_class.value, ExitCode.NEGATIVE)
