"""Errors as a user reads them, in one form: what, where and why in the first line, what to do next in those below it.

    lifebus: the broker at /home/you/.local/state/lifebus/run does not answer
      `lifebus doctor` says more

The contract's classes are words for programs: with ``--json`` an error is one JSON line, which has them.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from lifebus.cli.advice import ADVICE, PREPARED
from lifebus.cli.exit_codes import ExitCode, NotThere, UsageError, exit_code_of
from lifebus.cli.terminal import say, say_lines
from lifebus.cli.wording.plain_details import plain_detail
from lifebus_contract import LifebusError
from lifebus_contract.failure import FailureClass, RetryClass

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

_OURS: Final = "`lifebus "
"""How a command of ours begins in a text."""

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
        return ExitCode.USAGE, [*str(cause).split("\n"), *_meant(cause, arguments), _help_for(arguments)]
    if isinstance(cause, NotThere):
        return ExitCode.NEGATIVE, [str(cause), *_meant(cause, arguments), cause.then]
    if isinstance(cause, LifebusError):
        first, *others = refusal_lines(cause)
        return exit_code_of(cause), [first, *_meant(cause, arguments), *others]
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
    others = fault.detail.split("\n")[1:]
    return [plain_detail(_parted(fault)[0]), *map(plain_detail, others), *_next_steps(fault)]


def _parted(fault: LifebusError) -> tuple[str, str]:
    """Return the first line of a detail: what is wrong, and what to do next where its end says so."""
    line = fault.detail.split("\n")[0]
    what, _, then = line.rpartition("; ")
    says_it = fault.code in PREPARED or _OURS in then
    return (what, then) if what and says_it and not then.startswith("did you mean") else (line, "")


def _meant(cause: Exception, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the command that may be meant, where a group took its name, nearly right, for a value."""
    if "did you mean" in str(cause):
        return
    from lifebus.cli.wording.parser_words import meant_command  # noqa: PLC0415  only after an error

    if (meant := meant_command(arguments)) is not None:
        yield f"did you mean `{meant}`?"


def _next_steps(fault: LifebusError) -> Iterator[str]:
    if then := _parted(fault)[1]:
        yield then
    if fault.code in PREPARED or _OURS in fault.detail:
        return
    after = _CORRECTED.get(fault.failure_class, _AFTERWARDS[fault.retry_class])
    yield ADVICE.get(fault.code or "", after)


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
