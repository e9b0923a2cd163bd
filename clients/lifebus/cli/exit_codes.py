"""Exit codes of every command, which failure leads to which, and errors as a user reads them."""

import os
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, cast

from lifebus.cli.terminal import say
from lifebus_contract import LifebusError


class ExitCode(IntEnum):
    """What a command says to the shell (docs/configuration.md has the table)."""

    OK = 0
    NEGATIVE = 1
    """It worked, and the answer is no: invalid document, unmet requirement, failed check, recorded failure."""
    USAGE = 2
    BAD_DATA = 65
    """What was given to be sent is against the contract."""
    UNAVAILABLE = 69
    """No broker answers, it is busy, or another one holds the directory."""
    SOFTWARE = 70
    """A defect of lifebus."""
    IO = 74
    """A file cannot be read or written, or the ledger failed."""
    CONFIGURATION = 78
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class UsageError(Exception):
    """The command line does not say something that can be done (exit code 2)."""


_BY_FAILURE: Final = {
    "invalid_request": ExitCode.BAD_DATA,
    "payload_too_large": ExitCode.BAD_DATA,
    "transport_error": ExitCode.UNAVAILABLE,
    "timeout": ExitCode.UNAVAILABLE,
    "internal_error": ExitCode.SOFTWARE,
}
_BY_CODE: Final = {
    "configuration": ExitCode.CONFIGURATION,
    "manifest_unreadable": ExitCode.CONFIGURATION,
    "manifest_invalid": ExitCode.CONFIGURATION,
    "duplicate_adapter": ExitCode.CONFIGURATION,
    "socket_path_too_long": ExitCode.CONFIGURATION,
    "directory_owner": ExitCode.CONFIGURATION,
    "directory_mode": ExitCode.CONFIGURATION,
    "directory_unusable": ExitCode.CONFIGURATION,
    "ledger_file_system": ExitCode.CONFIGURATION,
    "not_a_socket": ExitCode.CONFIGURATION,
    "already_running": ExitCode.UNAVAILABLE,
    "unreadable": ExitCode.IO,
    "ledger_failed": ExitCode.IO,
    "ledger_damaged": ExitCode.IO,
    "ledger_format": ExitCode.IO,
}


def exit_code_of(fault: LifebusError) -> ExitCode:
    """Return the exit code of an error; refusals that are a fact about the world count as a negative answer."""
    # The code is more precise than the class: a wrong setting is no invalid request.
    if fault.code in _BY_CODE:
        return _BY_CODE[fault.code]
    return _BY_FAILURE.get(fault.failure_class.value, ExitCode.NEGATIVE)


_NEXT: Final = {
    "no_broker": "start one with `lifebus up`, or see `lifebus doctor`",
    "already_running": "`lifebus status` shows it; another one needs its own LIFEBUS_RUNTIME_DIR and LIFEBUS_STATE_DIR",
    "configuration": "`lifebus config show --origin` shows where each setting comes from",
    "busy": "try again; the same idempotency key records nothing twice",
    "unknown_adapter": "`lifebus manifest list` shows the adapters",
    "duplicate_id_conflict": "use another key for another fact",
    "unknown_kind": "`lifebus schema` lists the kinds",
}


def explain(fault: BaseException) -> tuple[ExitCode, list[str]]:
    """Return the exit code of an error and the lines that explain it."""
    cause = first_cause(fault)
    if isinstance(cause, UsageError):
        return ExitCode.USAGE, [str(cause), "`lifebus --help` and `lifebus COMMAND --help` show what there is"]
    if isinstance(cause, LifebusError):
        return exit_code_of(cause), list(_lines_of(cause))
    if isinstance(cause, UnicodeError):
        return ExitCode.BAD_DATA, ["text that is not valid UTF-8 cannot be sent"]
    if isinstance(cause, OSError):
        where = f"{cause.filename}: " if cause.filename else ""
        return ExitCode.IO, [f"{where}{cause.strerror or type(cause).__name__}"]
    lines = [f"a defect of lifebus: {type(cause).__name__}: {str(cause)[:200]}"]
    return ExitCode.SOFTWARE, [*lines, "please report it; LIFEBUS_TRACEBACK=1 shows where it happened"]


def report(fault: BaseException) -> ExitCode:
    """Report an error to the user, on stderr, and return its exit code."""
    if os.environ.get("LIFEBUS_TRACEBACK"):
        import traceback  # noqa: PLC0415  rare

        traceback.print_exception(fault)
    code, lines = explain(fault)
    say(f"lifebus: {lines[0]}", color="red")
    for line in lines[1:]:
        say(f"  {line}")
    return code


def _lines_of(fault: LifebusError) -> Iterator[str]:
    first, *others = fault.detail.split("\n")
    yield first
    yield from others
    # A wrong setting is the user's to change: the contract's classes say nothing about it.
    if fault.code != "configuration":
        yield f"{fault.failure_class.value}, {fault.retry_class.value}"
    if fault.code in _NEXT:
        yield _NEXT[fault.code]


def first_cause(fault: BaseException) -> BaseException:
    """Return the first single error in nested groups."""
    cause = fault
    # Task groups wrap even a single error; users see the error alone.
    while isinstance(cause, BaseExceptionGroup):
        cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
    return cause
