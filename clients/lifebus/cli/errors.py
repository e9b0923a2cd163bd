"""Errors as a user reads them, in one form: what, where and why in the first line, what to do next in those below it.

    lifebus: the broker at /home/you/.local/state/lifebus/run does not answer
      `lifebus doctor` says more

The contract's classes are words for programs: with ``--json`` an error is one JSON line, which has them.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from lifebus.cli.exit_codes import ExitCode, UsageError, exit_code_of
from lifebus.cli.terminal import say
from lifebus_contract import LifebusError
from lifebus_contract.failure import FailureClass, RetryClass

_LEDGER: Final = "`lifebus ledger verify` says what is wrong with it; `lifebus ledger restore` takes a backup"
_WAITING: Final = (
    "`lifebus renewal continuation list` shows what waits; `lifebus renewal continuation remove` removes it"
)
_CAPABLE: Final = "`lifebus contract manifest show ADAPTER` shows what it can do; --prefer asks without insisting"
_PREPARED: Final = frozenset(
    {
        *("install_refused", "settings_unreadable", "settings_conflict", "file_refused", "file_busy", "exists"),
        *("directory_mode", "socket_path_too_long"),
        "no_service_manager",
    }
)
"""Codes whose detail says what to do next; every detail that names a command of ours does."""

_NEXT: Final = {
    "no_broker": "`lifebus doctor` says more",
    "no_stream": "`lifebus doctor` says more",
    "foreign_file": "put that right, or name another file: `lifebus config show --origin` shows where it comes from",
    "foreign_broker": "name a directory of your own: LIFEBUS_RUNTIME_DIR; `lifebus doctor` says more",
    "unreadable_answer": "see that broker and command are of one version: `lifebus version`, `lifebus status`",
    "closed": "`lifebus status` shows whether the broker is up; it is safe to try again",
    "already_running": "`lifebus status` shows it; another one needs its own LIFEBUS_RUNTIME_DIR and LIFEBUS_STATE_DIR",
    "configuration": "`lifebus config show --origin` shows where each setting comes from",
    "busy": "try again; the same idempotency key records nothing twice",
    "disk_full": "make room on the disk; the broker goes on by itself, and it is safe to try again",
    "partly_recorded": "`lifebus receipts` shows what was recorded; give a key (--key) to be able to try again safely",
    "duplicate_id_conflict": "use another key for another fact",
    "history_pruned": "`lifebus ledger show` shows what is still there",
    "unknown_adapter": "`lifebus contract manifest list` shows the adapters",
    "unknown_kind": "`lifebus contract schema` lists the kinds",
    "unknown_capability": "`lifebus contract manifest show ADAPTER` lists the capabilities",
    "requirement_unmet": _CAPABLE,
    "required_capability_lost": "`lifebus status` shows what is lost",
    "placement_unavailable": "`lifebus contract manifest show ADAPTER` shows the placements that it has",
    "mode_not_claimed": "`lifebus contract manifest show ADAPTER` shows the modes that it has",
    "directory_owner": "name a directory of your own: LIFEBUS_RUNTIME_DIR, LIFEBUS_STATE_DIR",
    "directory_unusable": "mend that, or name another directory: LIFEBUS_RUNTIME_DIR, LIFEBUS_STATE_DIR",
    "not_a_socket": "move away what stands there, then start again",
    "ledger_failed": "`lifebus doctor` shows how the ledger and its disk are",
    "ledger_damaged": _LEDGER,
    "log_broken": _LEDGER,
    "row_damaged": "`lifebus receipts export --rescue` saves the rest, `lifebus ledger restore` takes a backup",
    "ledger_format": "name another file, or use the version of lifebus that wrote this one",
    "ledger_file_system": "put it on a local disk: ledger.path in the configuration",
    "unreadable": "see that the path is right and that you may use it",
    "export_altered": "take another copy of the export",
    "export_damaged": "take another copy of the export",
    "bundle_damaged": "take another copy of the archive",
    "service_failed": "`lifebus service status` shows how it is, and the end of its log",
    "not_durable": "`lifebus config show ledger.backend --origin` shows why",
    "no_revision": "`lifebus ledger snapshots list` lists what is there",
    "manifest_unreadable": "see that the path is right; `lifebus config show --origin` shows where it comes from",
    "manifest_invalid": "correct the manifest; `lifebus contract validate manifest FILE` checks it",
    "artifact_mismatch": "write the file, then save a checkpoint that says how it is",
    "checkpoint_damaged": "save it again, or go on from an older one: `lifebus checkpoint list`",
    "no_session": "`lifebus sessions` lists the sessions",
    "flow_invalid": "correct them; `lifebus flow check` shows what the file would do",
    "no_run": "`lifebus flow list` lists the runs",
    "no_step": "`lifebus flow show` lists the phases of a run",
    "no_output": "`lifebus flow show` lists what was tried",
    "run_over": "`lifebus flow show` says how it ended; `lifebus flow retry` tries a phase of a failed run again",
    "run_exists": "leave --id out, or give another one",
    "root_taken": "`lifebus flow resume RUN` goes on, `lifebus flow abort RUN` ends it",
    "not_retriable": "`lifebus flow show` says how its phases stand",
    "other_filter": "pass the same filter or none; another filter needs another name",
    "pending": _WAITING,
    "store_full": _WAITING,
    "several_continuations": "`lifebus renewal continuation list` shows them; drop all but one",
}
"""What to do after an error with this code."""

_AFTERWARDS: Final = {
    RetryClass.SAFE_RETRY: "it is safe to try again",
    RetryClass.RETRY_AFTER_REREAD: "look at how things are now, then try again",
    RetryClass.RETRY_AFTER_RECONFIGURE: "change the settings or the command, then try again",
    RetryClass.RETRY_AFTER_OPERATOR: "put that right, then try again",
    RetryClass.DO_NOT_RETRY: "trying again does not help",
}
"""What to do where the code has nothing better: the contract's retry class in plain words."""

_CORRECTED: Final = {
    FailureClass.INVALID_REQUEST: "correct that, then try again",
    FailureClass.PAYLOAD_TOO_LARGE: "make it smaller, then try again",
}
"""What to do where the same request never succeeds, and another one may."""

_SYSTEM: Final = {
    errno.ENOENT: "see that the path is right",
    errno.EACCES: "see that you may use it",
    errno.EPERM: "see that you may use it",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "see that the path is right",
    errno.EEXIST: "name another one, or move it away",
    errno.ENOSPC: "make room on the disk, then try again",
    errno.EDQUOT: "make room on the disk, then try again",
    errno.EROFS: "name a place that can be written",
    errno.EMFILE: "allow more open files (ulimit -n), then try again",
}


def explain(fault: BaseException, arguments: Sequence[str] = ()) -> tuple[ExitCode, list[str]]:
    """Return the exit code of an error and the lines that explain it; `arguments` are those of the command line."""
    cause = first_cause(fault)
    if isinstance(cause, UsageError):
        return ExitCode.USAGE, [str(cause), _help_for(arguments)]
    if isinstance(cause, LifebusError):
        return exit_code_of(cause), refusal_lines(cause)
    if isinstance(cause, UnicodeError):
        return ExitCode.BAD_DATA, ["text that is not valid UTF-8 cannot be sent", "write it in UTF-8, then try again"]
    if isinstance(cause, OSError):
        where = f"{cause.filename}: " if cause.filename else ""
        after = _SYSTEM.get(cause.errno or 0, "put that right, then try again")
        return ExitCode.IO, [f"{where}{cause.strerror or str(cause) or type(cause).__name__}", after]
    lines = [f"a defect of lifebus: {type(cause).__name__}: {str(cause)[:200]}"]
    return ExitCode.SOFTWARE, [*lines, "please report it; LIFEBUS_TRACEBACK=1 shows where it happened"]


def refusal_lines(fault: LifebusError) -> list[str]:
    """Return the lines that explain an error of the contract."""
    return [*fault.detail.split("\n"), *_next_steps(fault)]


def _next_steps(fault: LifebusError) -> Iterator[str]:
    if fault.code in _PREPARED or "`lifebus " in fault.detail:
        return
    after = _CORRECTED.get(fault.failure_class, _AFTERWARDS[fault.retry_class])
    yield _NEXT.get(fault.code or "", after)


def say_lines(lines: Sequence[str]) -> None:
    """Print an error's lines on stderr."""
    say(f"lifebus: {lines[0]}", color="red")
    for line in lines[1:]:
        say(f"  {line}")


def report(fault: BaseException, arguments: Sequence[str] = ()) -> ExitCode:
    """Report an error to the user, on stderr, and return its exit code."""
    if os.environ.get("LIFEBUS_TRACEBACK"):
        import traceback  # noqa: PLC0415  rare

        traceback.print_exception(fault)
    code, lines = explain(fault, arguments)
    # What stands behind `--` is another program's.
    own = arguments[: list(arguments).index("--")] if "--" in arguments else arguments
    if "--json" in own:
        import msgspec  # noqa: PLC0415  not every error needs it

        say(msgspec.json.encode({"error": _plain(first_cause(fault), code, lines)}).decode())
    else:
        say_lines(lines)
    return code


def _plain(cause: BaseException, code: ExitCode, lines: list[str]) -> dict[str, Any]:
    """Return an error as plain data, with the contract's words where it is one of the contract."""
    refusal = cause if isinstance(cause, LifebusError) else None
    return {
        "exit_code": int(code),
        "detail": refusal.detail if refusal else lines[0],
        "next": list(_next_steps(refusal)) if refusal else lines[1:],
        "code": refusal and refusal.code,
        "failure_class": refusal and refusal.failure_class.value,
        "retry_class": refusal and refusal.retry_class.value,
        "field": refusal and refusal.field,
    }


def _help_for(arguments: Sequence[str]) -> str:
    from lifebus.cli.app import known_words  # noqa: PLC0415  it costs start-up time

    known = known_words(arguments)
    if not known:
        return "`lifebus --help` shows the commands"
    return f"`lifebus {' '.join(known)} --help` shows what there is"


def first_cause(fault: BaseException) -> BaseException:
    """Return the first single error in nested groups."""
    cause = fault
    # Task groups wrap even a single error; users see the error alone.
    while isinstance(cause, BaseExceptionGroup):
        cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
    return cause
