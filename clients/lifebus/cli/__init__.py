"""The command line.  Each command is a module that is imported when it is asked for, so that all start quickly."""

import os
import sys

from lifebus.cli.old_names import FOR_PROGRAMS, present_words

TYPE_CHECKING = False  # an editor waits for `lifebus app-server tee`
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "run"]


def main() -> None:
    """Run the command of `sys.argv` and exit with its code: the entry point `lifebus`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: "Sequence[str]") -> int:
    """Run one command and return its exit code; an error is reported on stderr, without a traceback."""
    _prepare_streams()
    words, notice = present_words(arguments)
    if notice is not None:
        _say_old_name(notice, words)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as fault:  # noqa: BLE001  one sentence, never a traceback
        return _conclude(fault, words)
    return code


def _say_old_name(notice: str, words: "Sequence[str]") -> None:
    """Say that a command has another name now, where a person may read it and no program is disturbed by it."""
    # What stands behind `--` is another program's.
    own = words[: words.index("--")] if "--" in words else words
    if "--json" in own or (tuple(words[:2]) in FOR_PROGRAMS and not sys.stderr.isatty()):
        return
    from lifebus.cli.terminal import say  # noqa: PLC0415  only for old names

    say(notice, color="dim")


def _conclude(fault: BaseException, arguments: "Sequence[str]") -> int:
    """Return the exit code of whatever ended a command."""
    from lifebus.cli.errors import first_cause, report  # noqa: PLC0415  only when something went wrong
    from lifebus.cli.exit_codes import ExitCode  # noqa: PLC0415

    cause = first_cause(fault)
    if isinstance(cause, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(cause, BrokenPipeError):
        _forget_stdout()
        return ExitCode.CLOSED_PIPE
    # SystemExit and its like are not ours to turn into an exit code.
    if not isinstance(cause, Exception):
        raise cause
    if isinstance(cause, OSError):
        _forget_stdout()
    return report(fault, arguments)


def _forget_stdout() -> None:
    """Send what is still buffered nowhere: the interpreter's last flush must not complain."""
    try:
        # Python flushes stdout once more at exit, and would print a traceback for a closed pipe.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != 1:
            os.dup2(nowhere, 1)
            os.close(nowhere)
    except OSError:
        return


def _dispatch(arguments: "Sequence[str]") -> int:
    if list(arguments) in ([], ["--help"], ["-h"]):
        from lifebus.cli.first_screen import show_first_screen  # noqa: PLC0415

        return show_first_screen()
    if list(arguments) == ["version"]:  # prompts and scripts ask often, and nothing is to be parsed
        from lifebus.cli.contract.version import version  # noqa: PLC0415

        return version()
    code = _run_plainly(arguments)
    if code is not None:
        return code
    from cyclopts import CycloptsError  # noqa: PLC0415

    from lifebus.cli.app import make_app  # noqa: PLC0415

    try:
        result = make_app()(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as fault:
        from lifebus.cli.exit_codes import UsageError  # noqa: PLC0415
        from lifebus.cli.wording.parser_words import plain_words  # noqa: PLC0415

        raise UsageError(plain_words(fault, arguments)) from None
    return int(result) if isinstance(result, int) else 0


def _run_plainly(arguments: "Sequence[str]") -> int | None:
    """Run what has to start quickly, or stays long, without the parser; None where it has to read the words."""
    if list(arguments[:2]) in (["app-server", "tee"], ["app-server", "run"]):  # an editor waits for its server
        return _run_proxy(arguments[1], arguments[2:])
    if arguments[0] == "up":
        from lifebus.cli.bus.broker_process import up_plainly  # noqa: PLC0415

        return up_plainly(arguments[1:])
    if arguments[0] == "status":
        from lifebus.cli.read.status_plainly import status_plainly  # noqa: PLC0415

        return status_plainly(arguments[1:])
    if arguments[0] == "emit":
        from lifebus.cli.bus.emit_plainly import emit_plainly  # noqa: PLC0415

        return emit_plainly(arguments[1:])
    return None


def _run_proxy(kind: str, words: "Sequence[str]") -> int | None:
    """Run `lifebus app-server tee` or `run`; None where the words are not plain, and the parser has to explain them."""
    from lifebus.proxy.program import ProxyOptions, read_options, run_proxy  # noqa: PLC0415

    options = ProxyOptions(owned=kind == "run")
    command = read_options(list(words), options)
    return None if command is None else run_proxy(command, options)


def _prepare_streams() -> None:
    """Let no character fail to be printed, and open a replacement for each stream that the caller has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # takes the free number, which a socket would get otherwise
            # Not closed with the interpreter: the number would be free for a late socket.
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8", closefd=False))
    # Session ids are whatever a harness makes them; a terminal of another encoding must not end a command.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
